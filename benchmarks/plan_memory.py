"""Compare planned with allocated memory over drawn configurations: `python benchmarks/plan_memory.py`.

Each draw is a small model with a loss, an adapter or none, 4-bit weights or none, checkpointing or none, and
a micro batch or none. Three steps of a real run on the CPU are measured by PyTorch's profiler; the same
batches are traced without weights. The goal is a difference of at most 5 % in each draw. On a busy machine
the profiler can lose allocations: repeat such a draw with `--only`.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from itertools import islice
from pathlib import Path

from omegaconf import DictConfig
from profiled import StepPeaks

from sts_lightning.config.check import check_config
from sts_lightning.config.compose import compose_train
from sts_lightning.config.machine import decide
from sts_lightning.planning.estimate import draw
from sts_lightning.planning.trace_step import trace_step
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.build import build_experiment
from sts_lightning.workflows.checks import validate

GOAL = 0.05
STEPS = 3

SHORT = [
    "data=toy",
    "data.train_size=256",
    "data.dev_size=20",
    "data.test_size=20",
    "evaluation.final=false",
    f"trainer.max_steps={STEPS}",
    "trainer.val_every=1000",
    "logger={}",
    "trainer=cpu",
]


def measured(cfg: DictConfig) -> int:
    """Return the peak of the steps of a real run after the first."""
    watch = StepPeaks()
    with tempfile.TemporaryDirectory() as folder:
        parts = validate(RunFolder(Path(folder) / "run"), check_config(cfg), [watch])
        with watch.watching():
            experiment = build_experiment(parts, "")
            experiment.module.train()
            experiment.trainer.fit(experiment.module, parts.data)
    return max(watch.bytes[1:])


def planned(cfg: DictConfig) -> int:
    """Return the peak of the same steps by plan."""
    cfg, machine = check_config(cfg), decide(cfg)
    micro, clip = cfg.trainer.micro_batch_size, cfg.trainer.gradient_clip_val
    first = draw(cfg, machine.precision, micro)
    data, encoder = first.data, first.module.encoder
    data.setup()
    data.connect(encoder.prepare(machine.chunk_tokens, True), encoder.prepare(machine.chunk_tokens, False))
    batches = list(islice(data.train_dataloader(), STEPS))[1:]
    return max(
        trace_step(
            draw(cfg, machine.precision, micro).module, batch, machine.precision, False, clip
        ).peak.total()
        for batch in batches
    )


def drawn(random_numbers: random.Random) -> list[str]:
    """Draw the overrides of a configuration."""
    choose = random_numbers.choice
    model = choose(["tiny_bert", "tiny_mistral", "tiny_llama", "tiny_opt"])
    loss, kind = choose(
        [
            ("pearson", "pairs"),
            ("cosent", "pairs"),
            ("spearman", "pairs"),
            ("smooth_k2", "classes"),
            ("infonce", "triplets"),
            ("angle", "pairs"),
        ]
    )
    size = choose([32, 64])
    made = [
        f"model={model}",
        f"loss={loss}",
        f"data.kind={kind}",
        f"model.hidden_size={size}",
        "data.batch_size=16",
    ]
    adapted = model != "tiny_bert" and choose([True, True, False])
    if model != "tiny_bert":
        made.append(f"prompt={choose(['eol', 'sum'])}")
        if not adapted:
            made.append("model.adapter=null")
        elif choose([True, False]):
            made.append("model.quantization=4bit")
    made.append(f"trainer.gradient_checkpointing={choose(['true', 'false'])}")
    made.append(f"trainer.micro_batch_size={choose(['null', '4', '8'])}")
    made.append(f"precision={choose(['32-true', 'bf16-mixed'])}")
    return made


def main() -> None:
    """Measure each draw and print the differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of the draws to measure, from 1")
    options = parser.parse_args()
    numbers = random.Random(options.seed)
    errors = []
    for turn in range(options.draws):
        overrides = drawn(numbers)
        if options.only and turn + 1 not in options.only:
            continue
        cfg = compose_train([*SHORT, *overrides])
        real, plan = measured(cfg), planned(cfg)
        errors.append(plan / real - 1)
        print(f"{turn + 1:3} {real / 2**20:8.2f} MiB {errors[-1]:+.1%}  {' '.join(overrides)}", flush=True)
    within = sum(abs(error) <= GOAL for error in errors)
    print(f"{within} of {len(errors)} within {GOAL:.0%}; largest difference {max(map(abs, errors)):.1%}")


if __name__ == "__main__":
    main()

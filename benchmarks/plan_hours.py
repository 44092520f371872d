"""Compare planned with measured durations on this CPU: `STS_DATA_ROOT=... python benchmarks/plan_hours.py`.

Ten runs of MiniLM of about a minute: `sts-lightning plan --card cpu` says how long, then `train.py`
runs and says how long it took from the first line of the configuration to the written results. The goal is a
difference of at most 30 %. The machine must be idle: other work slows the runs, not the plan.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from sts_lightning.config.compose import compose_train
from sts_lightning.planning.estimate import estimate
from sts_lightning.runs.folder import RunFolder

ROOT = Path(__file__).resolve().parents[1]
GOAL = 0.3
COMMON = ["model=minilm", "logger=csv", "trainer.max_epochs=null", "evaluation.final=false"]
RUNS = [
    ["loss=pearson", "precision=32-true", "trainer.max_steps=20"],
    ["loss=pearson", "precision=auto", "trainer.max_steps=20"],
    ["loss=cosent", "data.batch_size=16", "precision=32-true", "trainer.max_steps=80"],
    ["loss=smooth_k2", "precision=32-true", "trainer.max_steps=20"],
    ["loss=infonce", "data=nli_triplets", "precision=32-true", "trainer.max_steps=10"],
    ["experiment=simcse_unsup", "precision=32-true", "trainer.max_steps=40"],
    ["experiment=promptbert_sup", "model.pooling=mask_token", "data.batch_size=64", "trainer.max_steps=8"],
    ["loss=pearson", "model.max_length=32", "trainer.micro_batch_size=16", "trainer.max_steps=20"],
    ["loss=pearson", "trainer.gradient_checkpointing=true", "trainer.max_steps=20"],
    ["loss=pearson", "precision=32-true", "trainer.max_steps=10", "evaluation.final=true"],
]
"""Overrides of the runs; the last alone is scored on the test sets."""


def main() -> None:
    """Plan and run each configuration, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of the runs, from 1")
    options = parser.parse_args()
    errors = []
    for number, overrides in enumerate(RUNS, 1):
        if options.only and number not in options.only:
            continue
        overrides = [*overrides[:1], *COMMON, *overrides[1:]]
        cfg = compose_train(overrides)["run"]
        planned = estimate(cfg, "cpu", quick=True).seconds
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            command = [sys.executable, str(ROOT / "train.py"), *overrides, f"hydra.run.dir={run}"]
            subprocess.run(command, check=True, capture_output=True)
            measured = RunFolder(run).metrics().wall_seconds
        assert planned is not None and measured is not None
        errors.append(planned / measured - 1)
        print(f"{number:3} {measured:7.1f} s, planned {errors[-1]:+.0%}  {' '.join(overrides)}", flush=True)
    within = sum(abs(error) <= GOAL for error in errors)
    print(f"{within} of {len(errors)} within {GOAL:.0%}; largest difference {max(map(abs, errors)):.0%}")


if __name__ == "__main__":
    main()

"""Compare the losses of every experiment between two checkouts: python tools/compare_losses.py OLD NEW.

Each experiment trains a tiny model on the generated language without dropout, once with the code of either
checkout and this interpreter. What a change of the code leaves alone must be equal to the last digit. Runs
that exist are kept, so that a second call resumes; `--only NAME` takes one experiment.
"""

import argparse
import csv
import os
import subprocess
import sys
from pathlib import Path

STEPS = [
    "precision=32-true",
    "data=toy",
    "data.train_size=512",
    "data.dev_size=40",
    "data.test_size=40",
    "data.batch_size=8",
    "trainer.max_epochs=null",
    "trainer.val_every=10",
    "trainer.log_every_n_steps=1",
    "trainer.save_every=100",
    "optim.lr=1e-3",
    "logger=csv",
]
ENCODER = ["model=tiny_bert", "model.dropout=0.0"]
PREFIX = (
    "+model.adapter={_target_: peft.PrefixTuningConfig, task_type: FEATURE_EXTRACTION, num_virtual_tokens: 3}"
)
KINDS = {
    "sentences": [
        "cotbert",
        "ct",
        "esimcse",
        "infocse",
        "mixcse",
        "promcse",
        "promptbert",
        "rankcse",
        "simcse_unsup",
    ],
    "triplets": [
        "bellm",
        "contrast_tune",
        "minilm_nli",
        "pcc_stage1",
        "promcse_llama",
        "promcse_sup",
        "promptbert_sup",
        "simcse_sup",
    ],
    "classes": [
        "minilm_distill_nli",
        "regression_head",
        "regression_nli",
    ],
    "pairs": [
        "angle_llama",
        "demo",
        "minilm_distill_pairs",
        "minilm_pairs",
        "pcc_stage2",
        "pearson_spearman",
        "regression_tune",
    ],
}


def decoder(family: str) -> list[str]:
    """A small decoder in 4 bits, with LoRA that drops nothing."""
    return [
        f"model=tiny_{family}",
        "model.quantization=4bit",
        "model.adapter.lora_dropout=0.0",
        "trainer=cpu",
        "optim.warmup=0",
    ]


def settings(experiment: str, kind: str, teacher: Path) -> list[str]:
    """Return the overrides of a short run."""
    model = {
        "angle_llama": [*decoder("llama"), "~data.scored"],
        "bellm": decoder("llama"),
        "promcse_llama": [*(s for s in decoder("llama") if "lora" not in s), "~model.adapter", PREFIX],
        "pcc_stage1": decoder("mistral"),
        "pcc_stage2": [*decoder("opt"), "model.dropout=0.0", "trainer.init=best"],
    }.get(experiment, ENCODER)
    extra = {
        "esimcse": ["~data.paper_code_repetition"],
        "infocse": ["auxiliary.lower_layers=1"],
        "rankcse": [f"auxiliary.sources=[{teacher}]", "auxiliary.weights=null"],
        "minilm_distill_nli": [f"auxiliary.sources=[{teacher}]", "~data.limit"],
        "minilm_distill_pairs": [f"auxiliary.sources=[{teacher}]"],
        "bellm": ["~data.published_rows"],
        "contrast_tune": ["~data.positives_from"],
        "regression_tune": ["trainer.init=best"],
    }.get(experiment, [])
    return [f"experiment={experiment}", *STEPS, f"data.kind={kind}", *model, *extra]


def train(checkout: Path, folder: Path, overrides: list[str]) -> str:
    """Train with the code of the checkout, unless the run is there; return what went wrong."""
    if (folder / "metrics.json").exists():
        return ""
    folder.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, str(checkout / "train.py"), *overrides, f"hydra.run.dir={folder}"],
        cwd=folder.parent,
        env={**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else (done.stderr.strip() or done.stdout.strip())[-300:]


def losses(folder: Path) -> list[float]:
    """Return the losses of the steps that a run has written."""
    with (folder / "history.csv").open(newline="") as file:
        return [float(row["train/loss"]) for row in csv.DictReader(file) if row.get("train/loss")]


def main() -> int:
    """Print a line for each experiment; return 1 where one differs by more than 1e-5 or fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--only")
    parser.add_argument("--folder", type=Path, default=Path("runs/compare_losses"))
    options = parser.parse_args()
    bad = 0
    for kind, names in [("pairs", ["stage2"]), *KINDS.items()]:
        for name in names:
            if options.only not in (None, name) and name != "stage2":
                continue
            found = []
            for side in ("old", "new"):
                checkout = getattr(options, side).resolve()
                folder = options.folder.resolve() / side
                overrides = [*settings(name, kind, folder / "stage2"), f"trainer.max_steps={options.steps}"]
                error = train(checkout, folder / name, overrides)
                found.append((losses(folder / name) if not error else [], error))
            (old, old_error), (new, new_error) = found
            if old_error or new_error or len(old) != len(new) or not old:
                bad += 1
                print(
                    f"{name:<24} FAILED  old: {old_error or len(old)}  new: {new_error or len(new)}",
                    flush=True,
                )
                continue
            apart = max(abs(a - b) for a, b in zip(old, new, strict=True))
            bad += apart > 1e-5
            print(f"{name:<24} {len(old)} steps, last {new[-1]:.6f}, at most {apart:.1e} apart", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

"""Experiments of a user's, of which one starts from the run of the other."""

from __future__ import annotations

from pathlib import Path

ONE = """# @package _global_
defaults:
  - override /data: toy
name: one
data: {train_size: 32, dev_size: 40, test_size: 40, batch_size: 8}
trainer: {max_epochs: 1, val_every: 2, save_every: 1}
evaluation: {final: false}
"""

TWO = """# @package _global_
defaults: [one]
name: two
init_from: experiment:one
optim: {lr: 1e-4}
"""


def write_experiments(conf: Path, **texts: str) -> None:
    """Write experiments by name into a user's folder of the configuration; by default one and two."""
    (conf / "experiment").mkdir(parents=True, exist_ok=True)
    (conf / "sts_lightning").touch()
    for name, text in (texts or {"one": ONE, "two": TWO}).items():
        (conf / "experiment" / f"{name}.yaml").write_text(text)

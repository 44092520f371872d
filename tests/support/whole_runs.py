"""A short run, and what two runs must share to count as the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from sts_lightning.models.loading.folder import TRAINING
from sts_lightning.models.loading.pipeline import read_model
from sts_lightning.runs.folder import RunFolder, Which
from tests.conftest import SHORT_RUN
from tests.support.parts import losses, part

EPOCHS = [
    *SHORT_RUN,
    "data.batch_size=16",
    "trainer.max_epochs=2",
    "trainer.log_every_n_steps=1",
    "trainer.save_every=5",
]

_SIZES = {"train_size": 60, "dev_size": 50, "test_size": 60}

JOINT = [
    "model=tiny_bert",
    "name=run",
    "data=joint",
    *part("nli", "toy", kind="triplets", batch_size=8, **_SIZES),
    *part("cls", "toy", kind="classes", batch_size=12, **_SIZES),
    *part("sts", "toy", batch_size=10, **_SIZES),
    *losses(nli="infonce", cls="cross_entropy", sts="pearson"),
    "trainer.max_epochs=2",
    "trainer.val_every=0.5",
    "trainer.log_every_n_steps=1",
    "trainer.save_every=5",
]
"""A run on three data sets, of which one needs a head: 8, 5 and 6 batches an epoch."""


def metrics(run: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((run / "metrics.json").read_text())
    return loaded


def weights(run: Path, which: Which = "best") -> dict[str, torch.Tensor]:
    """Weights of the encoder of a run and of the head of its loss."""
    folder = RunFolder(run).model(which)
    encoder, _ = read_model(str(folder))
    training = folder / TRAINING
    own = load_file(training) if training.is_file() else {}
    return own | {f"encoder.{name}": value for name, value in encoder.state_dict().items()}


def same_results(one: Path, two: Path) -> None:
    left, right = metrics(one), metrics(two)
    for key in ("dev", "dev_untuned", "test", "best_step", "steps", "data"):
        assert left[key] == right[key], key
    here, there = weights(one), weights(two)
    assert here.keys() == there.keys()
    for name, value in here.items():
        assert torch.equal(value, there[name]), name
    timed = {"steps_per_second", "tokens_per_second"}
    rows = [
        [{k: v for k, v in row.items() if k not in timed} for row in RunFolder(r).history()]
        for r in (one, two)
    ]
    assert rows[0] == rows[1]

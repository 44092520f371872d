"""Dev scores in training are those of the report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
from lightning.pytorch.callbacks import Callback
from omegaconf import DictConfig

from sts_lightning.core.errors import TrainingError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.start import train_in
from tests.conftest import SHORT_RUN

Config = Callable[..., DictConfig]


class Scaled(Callback):
    """Multiplies all hidden states by a number, and adds 1."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def setup(self, trainer: pl.Trainer, pl_module: Any, stage: str) -> None:
        norm = pl_module.encoder.plain_backbone.encoder.layer[-1].output.LayerNorm
        norm.weight.data.fill_(self.factor)
        norm.bias.data.fill_(1.0)


def test_training_and_report_agree_on_identical_sentences(config: Config, tmp_path: Path) -> None:
    rng, words = np.random.default_rng(0), ["a", "quick", "small", "cat", "sees", "the", "green", "house"]
    rows = ["sentence1,sentence2,score"]
    for number in range(120):
        first, second = (" ".join(rng.choice(words, rng.integers(3, 30))) for _ in range(2))
        same = number % 2 == 1
        rows.append(f"{first},{first if same else second},{rng.uniform(4, 5) - 4 * (not same):.3f}")
    (tmp_path / "pairs.csv").write_text("\n".join(rows) + "\n")
    data = ["data=pairs_file", f"path={tmp_path}/pairs.csv", "data.dev_fraction=0.5", "data.batch_size=16"]
    short = ["model=tiny_bert", "trainer.max_steps=1", "logger=csv", "precision=bf16-mixed"]
    run = RunFolder(tmp_path / "run")
    train_in(run.path, config(*data, *short))
    trained, reported = run.history()[-1]["dev/spearman"], run.metrics().dev
    assert reported is not None
    assert trained == pytest.approx(reported["spearman"], abs=0.5)  # the other 30 pairs in bfloat16


def test_a_collapsed_encoder_has_no_correlation_in_training_and_report(
    config: Config, tmp_path: Path
) -> None:
    run = RunFolder(tmp_path / "run")
    short = [*SHORT_RUN, "loss=mse", "optim.lr=1e-20", "trainer.max_steps=1", "logger=csv"]
    train_in(run.path, config(*short), callbacks=[Scaled(0.0)])
    [*_, trained], reported = run.history(), run.metrics().dev
    assert reported is not None
    for name in ("spearman", "pearson"):
        assert trained[f"dev/{name}"] == reported[name] == 0.0


def test_a_cosine_without_a_rank_ends_the_run(config: Config, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"the cosines of .* dev pairs are NaN or infinite after step 0"):
        train_in(tmp_path, config(*SHORT_RUN), callbacks=[Scaled(float("nan"))])

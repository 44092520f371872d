"""Whole runs on small models: run folder, determinism, restoring, bad luck."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.deterministic
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback

import sts_lightning
from sts_lightning.core.errors import CheckpointError, ConfigError, TrainingError
from sts_lightning.evaluation import score as scoring
from sts_lightning.losses.pearson import PearsonLoss
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.run import build_encoder
from sts_lightning.runs.folder import RunFolder
from sts_lightning.training.callbacks import progress as callbacks
from sts_lightning.workflows.start import train_in
from tests.conftest import SHORT_DATA, SHORT_RUN
from tests.runs.test_run import Config
from tests.support.whole_runs import metrics, same_results, weights


@pytest.mark.parametrize(
    "overrides",
    [
        ["loss=infonce", "data.kind=triplets", "trainer.micro_batch_size=4"],
        ["loss=smooth_k2"],
    ],
)
def test_no_step_reads_memory_that_nothing_has_written(
    overrides: list[str], config: Config, tmp_path: Path
) -> None:
    """New memory that is filled with NaN, as deterministic algorithms do by default, changes nothing."""

    class Fill(Callback):
        def on_fit_start(self, trainer: Trainer, module: LightningModule) -> None:
            assert not torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
            torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]

    cfg = config(*SHORT_RUN, "trainer.max_steps=4", "trainer.chunk_tokens=64", *overrides)
    train_in(tmp_path / "as it is", cfg)
    train_in(tmp_path / "filled", cfg, callbacks=[Fill()])
    same_results(tmp_path / "as it is", tmp_path / "filled")
    filled = weights(tmp_path / "filled")
    for name, value in weights(tmp_path / "as it is").items():
        assert torch.equal(value, filled[name]), name


def test_broken_run_folders(uninterrupted: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(CheckpointError, match="is not a run folder: it has no config"):
        sts_lightning.load(tmp_path)
    (tmp_path / "config.yaml").write_bytes((uninterrupted / "config.yaml").read_bytes())
    with pytest.raises(CheckpointError, match="does not exist"):
        sts_lightning.load(tmp_path)


def test_training_uses_dropout(config: Config, tmp_path: Path) -> None:
    """A backbone that comes from files is in eval mode; training must not inherit that."""
    from tests.unit.models.test_backbone import save_tiny

    save_tiny(tmp_path / "model")
    overrides = [
        "model=bert_base",
        f"model.name={tmp_path / 'model'}",
        "model.max_length=64",
        *SHORT_DATA,
        "trainer.max_steps=3",
        "trainer.log_every_n_steps=1",
    ]
    losses = {}
    for rate in (0.0, 0.5):
        run = tmp_path / f"dropout{rate}"
        train_in(run, config(*overrides, f"+model.config.hidden_dropout_prob={rate}"))
        losses[rate] = [row["train/loss"] for row in RunFolder(run).history() if "train/loss" in row]
    assert not np.allclose(losses[0.0][0], losses[0.5][0], atol=1e-4)


def test_a_loss_that_is_not_finite_stops_the_run(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PearsonLoss, "forward", lambda self, views, labels: views.sum() * float("nan"))
    with pytest.raises(TrainingError, match=r"the loss is nan at step 1; a lower optim\.lr"):
        train_in(tmp_path / "run", config(*SHORT_RUN))
    assert not (tmp_path / "run" / "metrics.json").exists()


def test_a_start_with_nan_weights_is_named(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any) -> SentenceEncoder:
        encoder = build_encoder(*args)
        next(encoder.backbone.parameters()).data[3] = float("nan")
        return encoder

    monkeypatch.setattr("sts_lightning.training.assembly.build_encoder", broken)
    with pytest.raises(TrainingError, match=r"the weight encoder\.backbone\.\S+ is NaN or infinite"):
        train_in(tmp_path / "run", config(*SHORT_RUN, "logger=csv"))


def test_a_run_that_is_worse_than_its_start_says_so_first(
    uninterrupted: Path, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    logged: list[str] = []  # by the time that the table of scores is printed
    monkeypatch.setattr(
        "sts_lightning.workflows.report.print_scores",
        lambda *_: logged.append((run / "train.log").read_text()),
    )
    train_in(run, config(*SHORT_RUN, "optim.lr=0.3", "optim.warmup=0", "trainer.max_steps=3"))
    result = metrics(run)
    before, after = result["dev_untuned"], result["dev"]["spearman"]
    assert after < before - 1
    assert result["worse_than_untuned"] is True
    [log] = logged
    assert "selected weights are worse than the untuned model: lower" in log
    assert metrics(uninterrupted)["worse_than_untuned"] is False
    assert "worse than" not in (uninterrupted / "train.log").read_text()


def test_pearson_on_constant_batches_keeps_weights_finite(config: Config, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    same = "".join(f"same,same,{3 if i else 2}\n" for i in range(40))
    rest = "".join(f"text {i},other {i * i},{i % 6}\n" for i in range(12))
    path.write_text("sentence1,sentence2,score\n" + same + rest)
    cfg = config(
        "model=tiny_bert", "data=pairs_file", f"path={path}", "data.batch_size=4", "data.dev_fraction=0.4"
    )
    train_in(tmp_path / "run", cfg)
    assert all(value.isfinite().all() for value in weights(tmp_path / "run").values())


def test_limits(config: Config, tmp_path: Path) -> None:
    cfg = config(*SHORT_RUN, "data.batch_size=16", "trainer.limit_train_batches=3", "trainer.max_epochs=2")
    train_in(tmp_path / "run", cfg)
    assert metrics(tmp_path / "run")["steps"] == 6
    with pytest.raises(ConfigError, match=r"trainer\.extra\.max_steps"):
        train_in(tmp_path / "none", config(*SHORT_RUN, "+trainer.extra.max_steps=1"))
    assert not (tmp_path / "none").exists()


def test_the_duration_covers_the_final_evaluation(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode, late = scoring.encode_tables, [0.0]

    def slowly(*arguments: Any) -> Any:
        late[0] = 100.0
        return encode(*arguments)

    monkeypatch.setattr(scoring, "encode_tables", slowly)
    now = time.monotonic
    monkeypatch.setattr(
        callbacks, "time", SimpleNamespace(monotonic=lambda: now() + late[0], perf_counter=time.perf_counter)
    )
    train_in(tmp_path / "run", config(*SHORT_RUN, "trainer.max_steps=1", "logger=csv"))
    assert RunFolder(tmp_path / "run").metrics().details["wall_seconds"] >= 100

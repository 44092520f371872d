"""A training run that fails or is stopped."""

from __future__ import annotations

import errno
import shlex
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from sts_lightning.cli.hydra_app import storage_error
from sts_lightning.core.errors import InterruptedRunError, TrainingError
from sts_lightning.core.signals import Stopped
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows import command
from tests.conftest import EXACT, SHORT_RUN


@pytest.mark.parametrize("error", [TrainingError("memory ran out"), OSError("disk full"), Stopped])
@pytest.mark.parametrize("place", ["fit", "report"])
def test_the_other_processes_end_with_the_first(
    place: str, error: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else they would wait for it in an exchange."""
    if error is Stopped:
        error = Stopped(command.signal.SIGTERM)

    def fail(*_: Any) -> None:
        raise error

    ended: list[Any] = []
    experiment = SimpleNamespace(trainer="trainer")
    monkeypatch.setattr(command, "validate", lambda *_: None)
    monkeypatch.setattr(command, "build_experiment", lambda *_: experiment)
    monkeypatch.setattr(command, "fit", lambda _: None)
    monkeypatch.setattr(command, place, fail)
    monkeypatch.setattr(command, "stop_others", ended.append)
    with pytest.raises(InterruptedRunError if isinstance(error, Stopped) else type(error)):
        command.train_in(tmp_path, OmegaConf.create())
    assert ended == ["trainer"]


def test_a_training_that_ended_early_is_not_continued(
    config: Callable[..., DictConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cfg = config(
        *SHORT_RUN,
        "data.train_size=160",
        "data.batch_size=16",
        "trainer.max_epochs=3",
        "trainer.val_every=2",
        "logger=csv",
        "callbacks=early_stopping",
        "callbacks.early_stopping.patience=1",
        "+callbacks.early_stopping.min_delta=100",
    )
    command.train_in(tmp_path / "whole", cfg)

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="disk full"):
        patch.setattr(command, "report", fail)
        command.train_in(tmp_path / "run", cfg)
    command.train_in(tmp_path / "run", cfg, resume=True)
    whole, run = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "run")
    assert whole.history()[-1]["step"] < 30
    assert [row["step"] for row in run.history()] == [row["step"] for row in whole.history()]
    assert run.metrics().scores == whole.metrics().scores


def test_the_resume_command_can_be_typed(
    config: Callable[..., DictConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = RunFolder(tmp_path / "runs" / "it's a trial (é)")

    def interrupted(*_: Any) -> None:
        run.checkpoints.mkdir(parents=True)
        run.checkpoint("last").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "validate", interrupted)
    with pytest.raises(InterruptedRunError) as caught:
        command.train_in(run.path, config())
    resume = str(caught.value).partition("Resume with: ")[2]
    override = OverridesParser.create().parse_override(shlex.split(resume)[-1])
    assert (override.key_or_group, override.value()) == ("resume", run.name)
    error = storage_error(OSError(errno.ENOSPC, "full"), str(run.path))
    override = OverridesParser.create().parse_override(shlex.split(str(error).partition(": ")[2])[-1])
    assert override.value() == str(run.path)


def test_batches_without_contrast_are_counted(
    config: Callable[..., DictConfig], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """CoSENT is exactly 0 in them; 49 pairs of which two are similar, one alone in its batch."""
    head = "sentence1,sentence2,score\n"
    (tmp_path / "a.csv").write_text(head + "".join(f"a {i},b {i},{5 * (i < 2)}\n" for i in range(49)))
    (tmp_path / "dev.csv").write_text(head + "c,d,0\ne,e,5\n")
    own = ["model=tiny_bert", EXACT, "data=pairs_file", f"path={tmp_path}/a.csv", "logger=csv"]
    own += [f"data.dev_path={tmp_path}/dev.csv", "data.batch_size=8", "trainer.max_epochs=1"]
    with caplog.at_level("INFO"):
        command.train_in(tmp_path / "run", config(*own, "loss=cosent", "trainer.log_every_n_steps=1"))
    losses = [row["train/loss"] for row in RunFolder(tmp_path / "run").history() if "train/loss" in row]
    assert len(losses) == 6
    assert losses.count(0) in (4, 5, 6)
    assert (
        f"in {losses.count(0)} of 6 batches of the first epoch all scores are equal, and CoSENT"
        in caplog.text
    )
    assert "49 examples, 1 of them left out of each epoch, 6 steps of batch 8" in caplog.text
    caplog.clear()
    command.train_in(tmp_path / "mse", config(*own, "loss=cosine_mse"))
    assert "all scores are equal" not in caplog.text


@pytest.mark.parametrize("mask", [True, False])
def test_rows_that_share_an_answer(mask: bool, config: Callable[..., DictConfig], tmp_path: Path) -> None:
    """With one answer in a batch nothing is left to be pushed apart: the loss is 0."""
    words = ("dogs", "rain", "music", "the sea", "a guitar", "chess", "soup", "maps")
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("anchor,positive\n" + "".join(f"what about {word},see the list\n" for word in words))
    dev = tmp_path / "dev.csv"
    dev.write_text("sentence1,sentence2,score\na dog,a cat,1\nrain,snow,3\nchess,chess,5\n")
    run = config(
        "model=tiny_bert",
        "data=triplets_file",
        "loss=infonce",
        "data.columns=[anchor,positive]",
        f"path={pairs}",
        f"data.dev_path={dev}",
        "data.batch_size=8",
        f"loss.mask_repeats={str(mask).lower()}",
        "trainer.max_epochs=1",
        "trainer.log_every_n_steps=1",
        "trainer.micro_batch_size=2",
        "logger=csv",
    )
    command.train_in(tmp_path / "run", run)
    (loss,) = (
        row["train/loss"]
        for row in RunFolder(tmp_path / "run").history()
        if row.get("train/loss") is not None
    )
    assert loss == 0 if mask else loss > 1

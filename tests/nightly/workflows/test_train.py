"""A training run that fails or is stopped."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from sts_lightning.core.errors import InterruptedRunError, TrainingError
from sts_lightning.core.signals import Stopped
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows import start, train
from tests.conftest import SHORT_RUN


@pytest.mark.parametrize("error", [TrainingError("memory ran out"), OSError("disk full"), Stopped])
@pytest.mark.parametrize("place", ["fit", "report"])
def test_the_other_processes_end_with_the_first(
    place: str, error: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else they would wait for it in an exchange."""
    if error is Stopped:
        error = Stopped(signal.SIGTERM)

    def fail(*_: Any) -> None:
        raise error

    ended: list[Any] = []
    experiment = SimpleNamespace(trainer="trainer", made=None, first=True)
    monkeypatch.setattr(start, "check_config", lambda cfg: cfg)
    monkeypatch.setattr(train, "prepare", lambda *_: experiment)
    monkeypatch.setattr(train, "fit", lambda _: (None, {}))
    monkeypatch.setattr(train, place, fail)
    monkeypatch.setattr(train, "stop_others", ended.append)
    with pytest.raises(InterruptedRunError if isinstance(error, Stopped) else type(error)):
        start.train_in(tmp_path, OmegaConf.create())
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
    start.train_in(tmp_path / "whole", cfg)

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="disk full"):
        patch.setattr(train, "report", fail)
        start.train_in(tmp_path / "run", cfg)
    start.train_in(tmp_path / "run", cfg, resume=True)
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

    monkeypatch.setattr(train, "prepare", interrupted)
    with pytest.raises(InterruptedRunError) as caught:
        start.train_in(run.path, config())
    resume = str(caught.value).partition("Resume with: ")[2]
    override = OverridesParser.create().parse_override(shlex.split(resume)[-1])
    assert (override.key_or_group, override.value()) == ("resume", run.name)

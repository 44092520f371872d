"""A training run that fails."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf

from sts_lightning.errors import TrainingError
from sts_lightning.interrupts import Stopped
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows import train


@pytest.mark.parametrize("error", [TrainingError("memory ran out"), OSError("disk full"), Stopped])
@pytest.mark.parametrize("place", ["fit", "report"])
def test_the_other_processes_end_with_the_first(
    place: str, error: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else they would wait for it in an exchange."""
    if error is Stopped:
        error = Stopped(train.signal.SIGTERM)

    def fail(*_: Any) -> None:
        raise error

    ended: list[Any] = []
    experiment = SimpleNamespace(trainer="trainer")
    monkeypatch.setattr(train, "validate", lambda *_: None)
    monkeypatch.setattr(train, "build_experiment", lambda *_: experiment)
    monkeypatch.setattr(train, "fit", lambda _: None)
    monkeypatch.setattr(train, place, fail)
    monkeypatch.setattr(train, "stop_others", ended.append)
    with pytest.raises(type(error)):
        train.train_held(RunFolder(tmp_path), OmegaConf.create(), resume=False, command="")
    assert ended == ["trainer"]

"""What only shows the results of a run never costs them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from omegaconf import DictConfig

import sts_lightning
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.start import train_in
from tests.conftest import SHORT_RUN


def test_a_finished_run_has_its_models_and_no_state(
    config: Callable[..., DictConfig], tmp_path: Path
) -> None:
    short = [*SHORT_RUN, "trainer.max_epochs=-1", "trainer.max_steps=2", "evaluation.final=false"]
    run = RunFolder(tmp_path / "run")
    train_in(run.path, config(*short))
    assert {path.name for path in run.checkpoints.iterdir()} <= {"final"}
    # Everything that reads the weights of a finished run still does.
    train_in(
        tmp_path / "next",
        config(*short, f"init_from={run.path}", "trainer.init=final", "trainer.wise_ft=[0]"),
    )
    assert sts_lightning.load(run.path).dimension == 32

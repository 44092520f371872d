"""What only shows the results of a run never costs them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import DictConfig

import sts_lightning
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows import report
from sts_lightning.workflows.command import train_in
from sts_lightning.workflows.report import drop_optimizer
from tests.conftest import SHORT_RUN
from tests.support.whole_runs import metrics


@pytest.mark.parametrize(
    ("function", "lost", "error"),
    [
        ("plot_curves", "plots", RuntimeError("latex could\nnot be found")),
        ("write_page", "report.html", OSError("disk full")),
        ("imread", "the entries of TensorBoardLogger", KeyError("key")),
    ],
)
def test_what_shows_the_results_cannot_be_made(
    function: str,
    lost: str,
    error: Exception,
    config: Callable[..., DictConfig],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(*arguments: Any) -> None:
        assert RunFolder(tmp_path / "run").finished
        raise error

    monkeypatch.setattr(report, function, broken)
    train_in(tmp_path / "run", config(*SHORT_RUN, "trainer.max_epochs=-1", "trainer.max_steps=2"))
    assert RunFolder(tmp_path / "run").finished
    assert metrics(tmp_path / "run")["best_step"] > 0
    assert RunFolder(tmp_path / "run").predictions_file.is_file()
    message = " ".join(str(error).split())
    assert f"WARNING: {lost} could not be made ({type(error).__name__}: {message})" in caplog.text


def test_a_finished_run_drops_its_optimiser_and_keeps_its_weights(
    config: Callable[..., DictConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before: dict[str, Any] = {}

    def look(run: RunFolder) -> None:
        assert run.finished  # one that is killed here needs no state any more
        before.update(run.read_checkpoint("last"))
        drop_optimizer(run)

    monkeypatch.setattr(report, "drop_optimizer", look)
    short = [*SHORT_RUN, "trainer.max_epochs=-1", "trainer.max_steps=2", "evaluation.final=false"]
    run = RunFolder(tmp_path / "run")
    train_in(run.path, config(*short))
    last = run.read_checkpoint("last")
    assert before["optimizer_states"][0]["state"]
    assert last.keys() == {"state_dict", "global_step", "epoch", "pytorch-lightning_version"}
    assert last["global_step"] == 2
    for name, value in before["state_dict"].items():
        assert torch.equal(last["state_dict"][name], value), name
    assert {path.name for path in run.checkpoints.iterdir()} == {"best.ckpt", "last.ckpt"}
    # Everything that reads the weights of a finished run still does.
    train_in(
        tmp_path / "next",
        config(*short, f"init_from={run.path}", "trainer.init=final", "trainer.wise_ft=[0]"),
    )
    assert sts_lightning.load(run.path).dimension == 32

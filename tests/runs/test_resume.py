"""A run that was stopped, and resumed, ends with the numbers of an uninterrupted one."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

import sts_lightning
from sts_lightning.core.errors import InterruptedRunError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.history import read_history
from sts_lightning.workflows.command import train_in
from tests.support.interruptions import StopAt
from tests.support.run_entries import edit
from tests.support.whole_runs import EPOCHS, JOINT, same_results

Config = Callable[..., DictConfig]


@pytest.mark.parametrize("step", [4, 7, 16, 17])
def test_interrupted_and_resumed_equals_uninterrupted(
    step: int, uninterrupted: Path, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stops inside an epoch, at a dev evaluation (4), at its last step (16) and right after it."""
    run = tmp_path / "run"
    with pytest.raises(
        InterruptedRunError, match=r"stopped by Ctrl-C after step \d+\. Resume with: .*resume="
    ):
        train_in(run, config(*EPOCHS), callbacks=[StopAt(step)])
    assert not (run / "metrics.json").exists()
    if step == 7:  # as people do on a cluster
        (run / "checkpoints").rename(tmp_path / "scratch")
        (run / "checkpoints").symlink_to(tmp_path / "scratch")
    if step == 16:  # of another version
        edit(run / "config.yaml", lambda cfg: cfg.update(later=1) or cfg["optim"].pop("stretch"))
        assert sts_lightning.load(run).encode(["a"]).shape == (1, 32)
    train_in(run, RunFolder(run).load_config(), resume=True)
    same_results(uninterrupted, run)
    assert (run / "checkpoints").is_symlink() == (step == 7)


def test_joint_data_resume_in_the_middle_of_an_epoch(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sts_lightning.workflows.report.drop_optimizer", lambda run: None)
    train_in(tmp_path / "whole", config(*JOINT))
    rows = read_history(tmp_path / "whole" / "history.csv")
    rows = [row for row in rows if "train/loss" in row]
    parts = [n for row in rows for n in ("nli", "cls", "sts") if row.get(f"train/{n}") == row["train/loss"]]
    assert [parts.count(name) for name in ("nli", "cls", "sts")] == [16, 10, 12]
    run = tmp_path / "run"
    with pytest.raises(InterruptedRunError):
        train_in(run, config(*JOINT), callbacks=[StopAt(23)])
    train_in(run, RunFolder(run).load_config(), resume=True)
    same_results(tmp_path / "whole", run)


@pytest.mark.parametrize(("step", "stopped_after"), [(7, 7), (16, 15), (32, 32)])
def test_sigterm_saves_the_step(
    step: int,
    stopped_after: int,
    uninterrupted: Path,
    config: Config,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Inside an epoch, before a step when the one before was just saved, at a dev evaluation, at the end."""
    run = tmp_path / "run"
    with pytest.raises(InterruptedRunError) as caught:
        train_in(run, config(*EPOCHS), callbacks=[StopAt(step, signal.SIGTERM)])
    assert f"stopped by SIGTERM after step {stopped_after}. Resume with: " in str(caught.value)
    assert caught.value.exit_status == 143
    assert "SIGTERM: stopping after this step;" in caplog.text
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    train_in(run, RunFolder(run).load_config(), resume=True)
    same_results(uninterrupted, run)

"""A run that was stopped, and resumed, ends with the numbers of an uninterrupted one."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

import sts_lightning
from sts_lightning.core.errors import CheckpointError, ConfigError, InterruptedRunError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.start import train_in
from tests.support.interruptions import StopAt
from tests.support.run_entries import edit, train_py
from tests.support.whole_runs import EPOCHS, JOINT, metrics, same_results

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
        with pytest.raises(CheckpointError, match="has not finished; resume="):
            sts_lightning.load(run)
        train_in(run, RunFolder(run).load_config(), resume=True)
    else:  # the same command
        train_in(run, config(*EPOCHS))
    same_results(uninterrupted, run)
    assert (run / "checkpoints").is_symlink() == (step == 7)


def test_a_finished_run_is_trained_further(
    uninterrupted: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its steps, history and selection go on, and so does a run that is stopped meanwhile."""
    names = ("run", "stopped", "twice")
    run, stopped, twice = (Path(shutil.copytree(uninterrupted, tmp_path / name)) for name in names)
    before = RunFolder(run).history()
    with pytest.raises(ConfigError, match=r"has made 32 steps, and would end after 20;"):
        train_py(tmp_path / "out", f"resume={run}", "trainer.max_steps=20")
    assert (run / "metrics.json").is_file()
    with caplog.at_level("INFO"):
        train_py(tmp_path / "out", f"resume={run}", "trainer.max_steps=48")
    assert "resuming after step 32" in caplog.text
    result, rows = metrics(run), RunFolder(run).history()
    assert rows[: len(before) - 1] == before[:-1]
    assert [row["step"] for row in rows] == list(range(49))
    assert (result["steps"], result["resumed"]) == (48, True)
    assert result["best_step"] == max(rows, key=lambda row: row.get("dev/spearman", -1))["step"]
    trainer = RunFolder(run).load_config().trainer
    assert (trainer.max_epochs, trainer.max_steps) == (None, 48)
    assert rows[33]["lr"] == pytest.approx(5e-5 * (48 - 32) / (48 - 5))

    further = RunFolder(stopped).load_config()
    further.trainer.max_epochs, further.trainer.max_steps = None, 48
    with pytest.raises(InterruptedRunError):
        train_in(stopped, further, resume=True, further=True, callbacks=[StopAt(40)])
    assert RunFolder(stopped).state == "interrupted"
    train_py(tmp_path / "out", f"resume={stopped}", "trainer.max_steps=48")
    same_results(run, stopped)
    written = (run / "metrics.json").stat().st_mtime_ns
    train_py(tmp_path / "out", f"resume={run}", "trainer.max_steps=48")
    assert (run / "metrics.json").stat().st_mtime_ns == written
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "remove_state", lambda run: None)
        train_py(tmp_path / "out", f"resume={twice}", "trainer.max_steps=40")  # in the middle of an epoch
    train_py(tmp_path / "out", f"resume={twice}", "trainer.max_steps=48")
    assert [row["epoch"] for row in RunFolder(twice).history()] == [row["epoch"] for row in rows]
    with pytest.raises(
        ConfigError, match=r"its state was not kept, which trainer\.keep_state=true does.*init_from="
    ):
        train_py(tmp_path / "out", f"resume={run}", "trainer.max_epochs=6")


def test_joint_data_resume_in_the_middle_of_an_epoch(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunFolder, "remove_state", lambda run: None)
    train_in(tmp_path / "whole", config(*JOINT))
    rows = RunFolder(tmp_path / "whole").history()
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
    assert "SIGTERM: stopping after this step or dev evaluation;" in caplog.text
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    train_in(run, RunFolder(run).load_config(), resume=True)
    same_results(uninterrupted, run)

"""Runs from the runs of experiments, in this process: interrupted, mistaken, moved."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig

from sts_lightning.config.check import check_config
from sts_lightning.config.folders import VARIABLE
from sts_lightning.core.errors import ConfigError, InterruptedRunError
from sts_lightning.core.hardware import resolve_machine, with_machine
from sts_lightning.runs.folder import RunFolder
from sts_lightning.training.module import STSModule
from sts_lightning.workflows import start as workflow
from tests.conftest import SHORT_RUN
from tests.support.run_entries import composed, train_py, write_finished
from tests.support.two_runs import write_experiments

TWO = ["experiment=two", "model=tiny_bert", "logger=csv"]


@pytest.fixture
def experiments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two experiments, of which `two` starts from `one`; the working directory is the temporary folder."""
    write_experiments(tmp_path / "conf")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "conf"))
    monkeypatch.chdir(tmp_path)


def first_of(run: RunFolder) -> RunFolder:
    return RunFolder(run.settings()["init_from"])


@pytest.mark.usefixtures("experiments")
@pytest.mark.parametrize("again", ["same command", "resume"])
@pytest.mark.parametrize("stopped", ["loading the first", "training the first", "training the second"])
def test_whichever_run_was_interrupted_goes_on(
    stopped: str, again: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def result(folder: RunFolder) -> Any:
        return [run.metrics().dev for run in (first_of(folder), folder)]

    whole = RunFolder(tmp_path / "whole" / "run")
    train_py(whole.path, *TWO)
    run = RunFolder(tmp_path / "runs" / "run")
    compute = STSModule.training_step

    def stop(module: STSModule, *arguments: Any) -> Any:
        first = not first_of(run).finished
        if module.global_step == 2 and first == stopped.endswith("first"):
            signal.raise_signal(signal.SIGTERM)
        return compute(module, *arguments)

    with monkeypatch.context() as patch:
        if stopped == "loading the first":
            patch.setattr(
                "lightning.pytorch.seed_everything", lambda *_, **__: signal.raise_signal(signal.SIGTERM)
            )
        patch.setattr(STSModule, "training_step", stop)
        with pytest.raises(InterruptedRunError, match=rf"resume={run.name}$"):
            train_py(run.path, *TWO)
    assert run.state == ("interrupted" if stopped.endswith("second") else "started")
    first = first_of(run)
    before = first.metrics_file.read_bytes() if stopped.endswith("second") else b""
    train_py(run.path, *(TWO if again == "same command" else [f"resume={run.path}"]))
    assert result(run) == result(whole)
    assert first.metrics_file.read_bytes().startswith(before)


@pytest.mark.usefixtures("experiments")
def test_a_run_that_has_moved_starts_from_the_one_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunFolder(tmp_path / "was" / "run")

    def stop(module: STSModule, *arguments: Any) -> Any:
        signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(STSModule, "training_step", stop)
        with pytest.raises(InterruptedRunError):
            train_py(run.path, *TWO)
    first = first_of(run).path.name
    (tmp_path / "was").rename(tmp_path / "moved")
    run = RunFolder(tmp_path / "moved" / "run")
    train_py(run.path, f"resume={run.path}")
    assert run.settings()["init_from"] == f"moved/{first}"
    assert len(run.metrics().trained_on) == 2


@pytest.mark.usefixtures("experiments")
@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("trainer.max_epoch=2", "trainer.max_epoch"),
        ("optim.schedule=step", "optim.schedule=step: Input should be"),
        ("optim.freeze=encoder", "optim.freeze=encoder leaves nothing to train"),
        ("model.name=absent/model", "absent/model"),
    ],
)
def test_a_mistake_in_either_run_leaves_nothing(argument: str, message: str, tmp_path: Path) -> None:
    model = ["model=encoder"] if argument.startswith("model") else []
    with pytest.raises(Exception, match=message):
        train_py(tmp_path / "runs" / "both", *TWO, *model, argument)
    assert list(tmp_path.glob("runs/*")) == []


def test_an_added_setting_that_others_read_does_not_prevent_resuming(tmp_path: Path) -> None:
    with composed("train", *SHORT_RUN, "+width=24", "data.batch_size=${width}", output=tmp_path) as cfg:
        run, checked = RunFolder(tmp_path), check_config(cfg)
    run.save_config(with_machine(checked, resolve_machine(checked)))
    assert run.load_config().data.batch_size == 24


def test_what_an_earlier_version_did_not_decide_is_decided_anew(tmp_path: Path) -> None:
    with composed("train", *SHORT_RUN, output=tmp_path) as cfg:
        run, checked = RunFolder(tmp_path), check_config(cfg)
    stored = with_machine(checked, resolve_machine(checked))
    del stored.trainer.launch_tokens
    run.save_config(stored)
    found = workflow._for_folder(run, checked)
    assert (found.trainer.launch_tokens, found.trainer.chunk_tokens) == ("auto", stored.trainer.chunk_tokens)


@pytest.mark.parametrize(("devices", "rejected"), [(2, True), (1, False)])
def test_a_sweep_over_several_devices_in_one_process_is_rejected(
    devices: int, rejected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sts_lightning.workflows.start.train_in", lambda *_, **__: 80.0)
    overrides = [*SHORT_RUN, "hydra/launcher=basic", f"trainer.devices={devices}", "name=x"]
    with composed("train", *overrides, output=tmp_path / "job", mode="MULTIRUN") as cfg:
        if not rejected:
            assert workflow.train(cfg) == 80.0
            return
        with pytest.raises(ConfigError, match="leave it out"):
            workflow.train(cfg)


def test_resumed_runs_may_find_their_data_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, str]] = []

    def keep(run: Path, cfg: DictConfig, **settings: Any) -> float:
        seen.append((run.name, cfg.data_root))
        if run.name == "one":
            RunFolder(run).metrics_file.write_text("{}")
        return 0.0

    monkeypatch.setattr(workflow, "train_in", keep)
    one, two = RunFolder(tmp_path / "one"), RunFolder(tmp_path / "two")
    for run in (one, two):
        write_finished(run.path)
        run.metrics_file.unlink()
    cfg = two.load_config()
    cfg.init_from = str(one.path)
    two.save_config(cfg)
    train_py(tmp_path / "out", f"resume={two.path}", f"data_root={tmp_path / 'moved'}")
    assert seen == [("one", str(tmp_path / "moved")), ("two", str(tmp_path / "moved"))]

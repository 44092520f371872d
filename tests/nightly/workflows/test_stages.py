"""Runs of several stages, in this process."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig

from sts_lightning.config.check import check_config
from sts_lightning.config.machine import decide, decided
from sts_lightning.core.errors import ConfigError, InterruptedRunError, RunningElsewhereError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.lock import locked
from sts_lightning.training.module import STSModule
from sts_lightning.workflows import command as workflow
from sts_lightning.workflows.command import resume_stages, run_stages, train
from tests.conftest import SHORT_RUN
from tests.support.run_entries import composed, train_py, write_finished


def test_stages_are_started_again_and_resumed_as_a_whole(
    config: Callable[..., DictConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "both"
    short = [*SHORT_RUN, "logger=csv", "trainer.max_steps=2", "evaluation.final=false"]

    def stages(*more: str) -> dict[str, DictConfig]:
        return {"one": config(*short, *more), "two": config(*short, "seed=2")}

    with pytest.raises(ConfigError, match=r"trainer\.extra"):
        run_stages(RunFolder(folder), stages("+trainer.extra.no_such_option=1"))
    assert not folder.exists()

    with monkeypatch.context() as patch:  # before the first checkpoint of the first stage
        patch.setattr(STSModule, "on_validation_start", lambda _: signal.raise_signal(signal.SIGTERM))
        with pytest.raises(InterruptedRunError, match=rf"Start it again with the same command, .*={folder}$"):
            run_stages(RunFolder(folder), stages())
    with pytest.raises(ConfigError, match=r"other values of one\.data\.seed, one\.seed;"):
        run_stages(RunFolder(folder), stages("seed=5"))

    save = RunFolder.save_config

    def stop_second(run: RunFolder, cfg: DictConfig, *files: Any) -> None:
        save(run, cfg, *files)
        if run.path.name == "two":
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save_config", stop_second)
        with pytest.raises(InterruptedRunError, match=rf"Resume with: .* resume={folder}$"):
            run_stages(RunFolder(folder), stages("trainer.micro_batch_size=4"))
    assert RunFolder(folder).stage("one").load_config().trainer.micro_batch_size == 4  # it started again
    with pytest.raises(ConfigError, match=r"other values of one\.data\.seed, one\.seed;"):
        run_stages(RunFolder(folder), stages("seed=5"))
    first = (folder / "one" / "metrics.json").read_bytes()
    run_stages(RunFolder(folder), stages())
    assert (folder / "one" / "metrics.json").read_bytes() == first
    assert (folder / "two" / "metrics.json").is_file()
    with locked(folder), pytest.raises(RunningElsewhereError):
        resume_stages(RunFolder(folder))


def test_a_run_that_has_moved_starts_its_stage_from_the_one_beside_it(
    config: Callable[..., DictConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = [*SHORT_RUN, "trainer.max_steps=4", "evaluation.final=false"]
    stages = {"one": config(*short), "two": config(*short, "seed=2")}
    compute = STSModule.training_step

    def stop_second(module: STSModule, *args: Any) -> Any:
        if (tmp_path / "was" / "two").exists() and module.global_step == 1:
            signal.raise_signal(signal.SIGTERM)
        return compute(module, *args)

    with monkeypatch.context() as patch:
        patch.setattr(STSModule, "training_step", stop_second)
        with pytest.raises(InterruptedRunError, match="after step 2"):
            run_stages(RunFolder(tmp_path / "was"), stages)
    (tmp_path / "was").rename(tmp_path / "moved")
    resume_stages(RunFolder(tmp_path / "moved"))
    two = RunFolder(tmp_path / "moved").stage("two")
    assert len(two.metrics().trained_on) == 2
    assert two.load_config().init_from == str(tmp_path / "moved" / "one")


def test_an_added_setting_that_others_read_does_not_prevent_resuming(
    config: Callable[..., DictConfig], tmp_path: Path
) -> None:
    cfg = check_config(config(*SHORT_RUN, "+width=24", "data.batch_size=${width}"))
    run = RunFolder(tmp_path)
    run.save_config(decided(cfg, decide(cfg)))
    assert run.load_config().data.batch_size == 24


STAGES = [*SHORT_RUN, "+stages.stage1.experiment=stage2", "+stages.stage2.experiment=stage2", "name=both"]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("+stages.stage2.trainer.max_epoch=2", "stages.stage2.trainer.max_epoch: no such setting. Did you"),
        ("+stages.stage3.seed=1", "stages.stage3.experiment is missing"),
        ("+stages.stage2.optim.schedule=step", "optim.schedule=step is not among"),
        ("+stages.stage2.optim.freeze=encoder", "optim.freeze=encoder leaves nothing to train"),
    ],
)
def test_a_mistake_in_a_later_stage_is_found_before_the_first(
    argument: str, message: str, tmp_path: Path
) -> None:
    with (
        composed("train", *STAGES, argument, output=tmp_path / "both") as cfg,
        pytest.raises(ConfigError) as caught,
    ):
        train(cfg)
    assert message in str(caught.value)
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize(("devices", "rejected"), [(2, True), (1, False)])
def test_a_sweep_over_several_devices_in_one_process_is_rejected(
    devices: int, rejected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sts_lightning.workflows.command.train_in", lambda *_, **__: 80.0)
    overrides = [*SHORT_RUN, "hydra/launcher=basic", f"trainer.devices={devices}", "name=x"]
    with composed("train", *overrides, output=tmp_path / "job", mode="MULTIRUN") as cfg:
        if not rejected:
            assert train(cfg) == 80.0
            return
        with pytest.raises(ConfigError, match="Leave out hydra/launcher=basic"):
            train(cfg)


def test_a_resumed_run_may_find_its_data_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, str]] = []

    def keep(run: Path, cfg: DictConfig, **settings: Any) -> float:
        seen.append((run.name, cfg.data_root))
        return 0.0

    monkeypatch.setattr(workflow, "train_in", keep)
    alone, both = RunFolder(tmp_path / "alone"), RunFolder(tmp_path / "both")
    for run in (alone, both.stage("one")):
        write_finished(run.path)
        run.metrics_file.unlink()
    both.save_stages({"one": both.stage("one").load_config()})
    for run in (alone, both):
        train_py(tmp_path / "out", f"resume={run.path}", f"data_root={tmp_path / 'moved'}")
    assert seen == [("alone", str(tmp_path / "moved")), ("one", str(tmp_path / "moved"))]

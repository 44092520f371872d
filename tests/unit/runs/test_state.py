"""Progress of a run, and what may start in its folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from sts_lightning.core.errors import ConfigError, RunningElsewhereError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.lock import locked
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.runs.state import (
    begin_again,
    check_same,
    next_step,
)
from sts_lightning.workflows.evaluate import evaluate_in
from tests.conftest import SHORT_RUN

Config = Callable[..., DictConfig]


def write(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder


@pytest.mark.parametrize(
    ("files", "state"),
    [
        ((), "new"),
        ((".lock", "output.log"), "new"),
        (("config.yaml", "history.csv"), "started"),
        (("config.yaml", "checkpoints/best.ckpt"), "started"),
        (("config.yaml", "checkpoints/last.ckpt"), "interrupted"),
        (("checkpoints/last.ckpt",), "interrupted"),
        (("config.yaml", "checkpoints/last.ckpt", "metrics.json"), "finished"),
        (("config.yaml", "metrics.json"), "finished"),
    ],
)
def test_state_of_a_run(files: tuple[str, ...], state: str, tmp_path: Path) -> None:
    assert RunFolder(write(tmp_path, *files)).state == state


def test_what_makes_a_configuration_another_one(config: Config, tmp_path: Path) -> None:
    cfg = config("model=tiny_bert", "data=sts", "data_root=/here")
    RunFolder(tmp_path).save_config(cfg)
    check_same(RunFolder(tmp_path / "new"), cfg)
    check_same(RunFolder(tmp_path), cfg)
    write(tmp_path, "checkpoints/last.ckpt")
    check_same(RunFolder(tmp_path), cfg)
    check_same(RunFolder(tmp_path), config("model=tiny_bert", "data=sts", "data_root=/there"))
    other = config(
        "model=tiny_bert", "data=sts", "seed=2", "optim.betas=[0.9,0.99]", "+trainer.extra.benchmark=true"
    )
    with pytest.raises(ConfigError) as caught:
        check_same(RunFolder(tmp_path), other)
    message = str(caught.value)
    assert "other values of data.seed, optim.betas, seed, trainer.extra" in message
    assert f"resume={tmp_path}" in message
    with pytest.raises(ConfigError, match=r"and \d+ more;"):
        check_same(RunFolder(tmp_path), config("model=tiny_mistral", "data=toy"))


def test_another_machine_divides_a_batch_otherwise(config: Config, tmp_path: Path) -> None:
    cfg = config("model=tiny_bert", "data=sts", "trainer.chunk_tokens=1024")
    RunFolder(tmp_path).save_config(cfg)
    cfg.trainer.chunk_tokens = 1536
    check_same(RunFolder(tmp_path), cfg)
    cfg.trainer.wise_ft = [0.5]
    with pytest.raises(ConfigError, match=r"other values of trainer\.wise_ft;"):
        check_same(RunFolder(tmp_path), cfg)


def test_a_file_that_has_changed_is_named(tmp_path: Path) -> None:
    """Of a run that has started, and of a finished one; one that is gone is not compared."""
    files = {name: tmp_path / f"{name}.csv" for name in ("path", "dev", "test")}
    for path in files.values():
        path.write_text("a")
    data = {"dev_path": str(files["dev"]), "parts": {"own": {"test_path": str(files["test"])}}}
    cfg = OmegaConf.create({"path": {str(files["path"]): 1.0}, "data": data})
    found = {key: sha256(sha256("a")) for key in ("path", "data.dev_path", "data.parts.own.test_path")}
    started, finished = (RunFolder(tmp_path / name) for name in ("started", "finished"))
    started.path.mkdir()
    started.save_config(cfg, found)
    finished.path.mkdir()
    finished.save_config(cfg)
    finished.save_metrics(RunMetrics(None, {"spearman": 1.0}, {"content": {"files": found}}))
    for run in (started, finished):
        check_same(run, cfg)
    files["test"].write_text("b")
    for run in (started, finished):
        with pytest.raises(ConfigError, match=r"values of the content of data\.parts\.own\.test_path;"):
            check_same(run, cfg)
    files["test"].unlink()
    check_same(started, cfg)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_beginning_again_leaves_logs_and_what_is_not_the_runs(tmp_path: Path) -> None:
    kept = ["config.yaml", "notes.txt", "output.log", "train.log"]
    write(tmp_path, *kept, "history.csv", "checkpoints/best.ckpt", "tensorboard/events.1")
    begin_again(RunFolder(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == kept


def test_next_step(tmp_path: Path) -> None:
    command = "python train.py resume=x"
    assert next_step(RunFolder(tmp_path), command).endswith("The same command starts it again.")
    write(tmp_path, "config.yaml")
    assert next_step(RunFolder(tmp_path), command).endswith(
        f"Start it again with the same command, or: {command}"
    )
    write(tmp_path, "checkpoints/last.ckpt")
    assert next_step(RunFolder(tmp_path), command) == f". Resume with: {command}"
    write(tmp_path, "metrics.json")
    assert "had been written" in next_step(RunFolder(tmp_path), command)


def test_an_evaluation_neither_overwrites_nor_shares_a_folder(
    config: Config, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cfg = config("model=tiny_bert", of="eval")
    finished = RunFolder(tmp_path / "finished")
    finished.path.mkdir()
    finished.save_config(cfg)
    finished.save_metrics(RunMetrics({"average": 7.25, "tasks": {"STSB": {"spearman": 7.25}}}))
    before = finished.metrics_file.read_bytes()
    with caplog.at_level("INFO"):
        assert evaluate_in(finished.path, cfg) == 7.25
    assert (
        f"finished has finished: STSB 7.25, average 7.25; results in {finished.metrics_file}" in caplog.text
    )
    with pytest.raises(ConfigError, match="other values of model"):
        evaluate_in(finished.path, config("model=minilm", of="eval"))
    assert finished.metrics_file.read_bytes() == before
    training = tmp_path / "training"
    training.mkdir()
    RunFolder(training).save_config(config(*SHORT_RUN))
    with pytest.raises(ConfigError, match="was started with other values of"):
        evaluate_in(training, cfg)
    with locked(tmp_path / "busy"), pytest.raises(RunningElsewhereError):
        evaluate_in(tmp_path / "busy", cfg)
    assert not (training / "metrics.json").exists()

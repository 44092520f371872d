"""What TensorBoard and MLflow show of a run, read from its folder by their own readers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sts_lightning.core.errors import InterruptedRunError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.start import train_in
from tests.support.interruptions import StopAt
from tests.support.whole_runs import EPOCHS
from tests.unit.workflows.test_logged import Config


def events(run: Path) -> EventAccumulator:
    sizes = {"scalars": 0, "images": 0, "tensors": 0}
    return EventAccumulator(str(run / "tensorboard"), size_guidance=sizes).Reload()


def scalars(run: Path) -> dict[str, list[tuple[int, float]]]:
    found = events(run)
    other = {"steps_per_second", "tokens_per_second", "epoch"}  # timed, or twice at an evaluation
    return {
        tag: [(event.step, event.value) for event in found.Scalars(tag)]
        for tag in found.Tags()["scalars"]
        if tag not in other
    }


def test_settings_and_scores_also_after_a_stop(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "do not tell")
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    train_in(whole, config(*EPOCHS))
    with pytest.raises(InterruptedRunError):
        train_in(cut, config(*EPOCHS), callbacks=[StopAt(13)])
    train_in(cut, RunFolder(cut).load_config(), resume=True)
    assert scalars(whole) == scalars(cut)
    found = scalars(whole)
    history = [row for row in RunFolder(whole).history() if "train/loss" in row]
    assert [step for step, _ in found["train/loss"]] == [row["step"] for row in history]
    metrics = RunFolder(whole).metrics()
    for name, value in metrics.scores.items():
        assert found[f"final/{name}"] == [(32, pytest.approx(value))]
    assert found["hp_metric"] == [(0, -1), (32, pytest.approx(metrics.score))]
    for run in (whole, cut):
        content = b"".join(path.read_bytes() for path in (run / "tensorboard").iterdir())
        assert content.count(b"optim.betas") == 3  # a column, its value, and in hparams.yaml
        assert b"do not tell" not in content
        assert os.environ["HOME"].encode() not in content


def test_a_resumed_run_goes_on_in_its_run_of_mlflow(config: Config, tmp_path: Path) -> None:
    cfg = config(*EPOCHS, "logger=mlflow", "trainer.max_epochs=1", "name=mine")
    with pytest.raises(InterruptedRunError):
        train_in(tmp_path, cfg, callbacks=[StopAt(7)])
    train_in(tmp_path, RunFolder(tmp_path).load_config(), resume=True)
    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    experiment = client.get_experiment_by_name("sts-lightning")
    (found,) = client.search_runs([experiment.experiment_id])
    assert found.info.status == "FINISHED"
    assert found.info.run_name == "mine"
    assert found.data.params["optim.lr"] == "5e-05"
    losses = client.get_metric_history(found.info.run_id, "train/loss")
    history = [row for row in RunFolder(tmp_path).history() if "train/loss" in row]
    assert {metric.step: metric.value for metric in losses} == pytest.approx(
        {row["step"]: row["train/loss"] for row in history}, abs=1e-6
    )
    for name, value in RunFolder(tmp_path).metrics().scores.items():
        assert found.data.metrics[f"final/{name}"] == pytest.approx(value)


def test_a_server_of_mlflow(config: Config, tmp_path: Path) -> None:
    """A file stands for one; the run folder gets no store of its own."""
    uri = f"sqlite:///{tmp_path}/server.db"
    steps = ["trainer.max_epochs=-1", "trainer.max_steps=2", "evaluation.final=false"]
    train_in(tmp_path / "run", config(*EPOCHS, *steps, "logger=mlflow", f"+logger.mlflow.tracking_uri={uri}"))
    assert not (tmp_path / "run" / "mlflow.db").exists()
    assert len(MlflowClient(uri).search_runs(["1"])) == 1

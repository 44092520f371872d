"""What TensorBoard shows of a run, read from its folder by TensorBoard's own reader."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch.loggers import Logger
from omegaconf import DictConfig
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sts_lightning.core.errors import InterruptedRunError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.workflows.command import train_in
from sts_lightning.workflows.fit import log_settings
from sts_lightning.workflows.report import log_results
from tests.scenarios.helpers import EPOCHS
from tests.scenarios.interruptions import StopAt

Config = Callable[..., DictConfig]


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


@pytest.mark.slow
def test_settings_scores_and_plots_also_after_a_stop(
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
        accumulated = events(run)
        assert accumulated.Tags()["images"] == ["plots/curves", "plots/dev_cosines"]
        assert [image.step for image in accumulated.Images("plots/curves")] == [32]
        content = b"".join(path.read_bytes() for path in (run / "tensorboard").iterdir())
        assert content.count(b"optim.betas") == 3  # a column, its value, and in hparams.yaml
        assert b"do not tell" not in content
        assert os.environ["HOME"].encode() not in content


class Collector(Logger):
    """Keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.settings: list[Any] = []
        self.metrics: list[Any] = []

    name = "collector"
    version = ""

    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        self.settings.append(params)

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.metrics.append((metrics, step))


def test_any_logger_gets_settings_and_scores(config: Config, tmp_path: Path) -> None:
    logger = Collector()
    cfg = config("data=sts", "data_root=/somewhere/private", "model=tiny_bert")
    log_settings([logger], cfg)
    (settings,) = logger.settings
    assert settings["optim.lr"] == 5e-5
    assert settings["optim.betas"] == "[0.9, 0.999]"
    assert not [key for key, value in settings.items() if "private" in str(value)]
    log_results([logger], RunFolder(tmp_path), RunMetrics(None, {"spearman": 70.0}), 9)
    assert logger.metrics == [({"final/dev": 70.0}, 9)]

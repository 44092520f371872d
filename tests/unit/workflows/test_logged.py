"""What TensorBoard shows of a run, read from its folder by TensorBoard's own reader."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch.loggers import Logger
from omegaconf import DictConfig

from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.workflows.report import log_results
from sts_lightning.workflows.train import log_settings

Config = Callable[..., DictConfig]


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
    cfg.path = {"parts/*.csv": 0.3}
    log_settings([logger], cfg)
    (settings,) = logger.settings
    assert settings["optim.lr"] == 5e-5
    assert settings["optim.betas"] == "[0.9, 0.999]"
    assert settings["path.parts/_.csv"] == 0.3
    assert not [key for key, value in settings.items() if "private" in str(value)]
    log_results([logger], RunMetrics(None, {"spearman": 70.0}), 9)
    assert logger.metrics == [({"final/dev": 70.0}, 9)]


@pytest.mark.parametrize("error", [RuntimeError("server"), OSError("offline"), KeyError("final/dev")])
def test_a_logger_that_fails_costs_no_other_logger_its_scores(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*arguments: Any) -> None:
        raise error

    first, second = Collector(), Collector()
    monkeypatch.setattr(first, "log_metrics", broken)
    log_results([first, second], RunMetrics(None, {"spearman": 70.0}), 9)
    assert second.metrics == [({"final/dev": 70.0}, 9)]
    assert f"the entries of Collector could not be made ({type(error).__name__}: {error})" in caplog.text

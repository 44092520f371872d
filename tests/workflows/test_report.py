"""What only shows the results of a run never costs them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig

from sts_lightning.workflows import report
from sts_lightning.workflows.train import train_in
from tests.conftest import SHORT_RUN
from tests.scenarios.helpers import metrics


@pytest.mark.parametrize(("function", "lost"), [("plot_curves", "plots"), ("write_page", "report.html")])
def test_plots_and_page_that_cannot_be_made(
    function: str,
    lost: str,
    config: Callable[..., DictConfig],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(*arguments: Any) -> None:
        raise ValueError("unknown symbol")

    monkeypatch.setattr(report, function, broken)
    train_in(tmp_path / "run", config(*SHORT_RUN, "trainer.max_epochs=-1", "trainer.max_steps=2"))
    assert metrics(tmp_path / "run")["best_step"] > 0
    assert f"WARNING: {lost} could not be made (ValueError: unknown symbol)" in caplog.text

"""The planned start of the search of ``micro_batch_size=auto``."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from omegaconf import DictConfig

from sts_lightning.config.check import check_config
from sts_lightning.config.machine import decide
from sts_lightning.planning import cost_lines as start

Config = Callable[..., DictConfig]

SMALL = ["model=tiny_bert", "data=toy", "data.batch_size=16", "trainer=cpu"]


def test_a_model_that_cannot_be_traced_does_not_stop_the_run(
    config: Config, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: object) -> None:
        raise NotImplementedError("no such kernel")

    monkeypatch.setattr(start, "Tracer", fail)
    cfg = check_config(config(*SMALL))
    with caplog.at_level(logging.INFO):
        assert start.planned_micro_batch(cfg, decide(cfg)) is None
    assert "no such kernel" in caplog.text

"""The planned start of the search of ``micro_batch_size=auto``."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import torch
from omegaconf import DictConfig

from sts_lightning.config.check import check_config
from sts_lightning.config.machine import decide
from sts_lightning.planning import cost_lines as start
from sts_lightning.planning.estimate import Tracer
from sts_lightning.planning.gpus import Card

Config = Callable[..., DictConfig]
SMALL = ["model=tiny_bert", "data=toy", "data.batch_size=16", "trainer=cpu"]


@pytest.mark.slow
def test_the_start_is_what_fits_by_plan(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    cfg = check_config(config(*SMALL))
    usable = Tracer(cfg, Card("test", 2**40, gpu=False, precision="32-true")).bytes_at(3) + 1000
    monkeypatch.setattr(start, "_device", lambda machine: Card("small", usable, gpu=False))
    before = torch.get_rng_state()
    assert start.planned_micro_batch(cfg, decide(cfg)) == 3
    assert torch.equal(torch.get_rng_state(), before)


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

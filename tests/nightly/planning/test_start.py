"""The planned start of the search of ``micro_batch_size=auto``."""

from __future__ import annotations

import pytest
import torch

from sts_lightning.config.check import check_config
from sts_lightning.config.machine import decide
from sts_lightning.planning import cost_lines as start
from sts_lightning.planning.estimate import Tracer
from sts_lightning.planning.gpus import Card
from tests.unit.planning.test_start import SMALL, Config


def test_the_start_is_what_fits_by_plan(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    cfg = check_config(config(*SMALL))
    usable = Tracer(cfg, Card("test", 2**40, gpu=False, precision="32-true")).bytes_at(3) + 1000
    monkeypatch.setattr(start, "_device", lambda machine: Card("small", usable, gpu=False))
    before = torch.get_rng_state()
    assert start.planned_micro_batch(cfg, decide(cfg)) == 3
    assert torch.equal(torch.get_rng_state(), before)

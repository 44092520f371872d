"""Counted bytes and arithmetic, against sizes by hand and PyTorch's own counter."""

from __future__ import annotations

import torch
from torch.utils.flop_counter import FlopCounterMode

from sts_lightning.planning.meter import GRAIN, Meter


def test_live_bytes_and_their_peak() -> None:
    meter = Meter()
    with meter:
        first = torch.empty(1024)  # 4,096 bytes
        with meter.purpose("vectors"):
            second = torch.empty(1)
        assert (meter.now["activations"], meter.now["vectors"]) == (4096, GRAIN)
        assert first.view(32, 32).t().untyped_storage().nbytes() == 4096
        assert meter.now.total() == 4096 + GRAIN  # a view takes nothing
        del first
        assert meter.now["activations"] == 0
        meter.add(second, "gradients")
    assert (meter.now["vectors"], meter.now["gradients"]) == (0, GRAIN)
    assert meter.peak == {"activations": 4096, "vectors": GRAIN}


def test_tensors_that_only_the_backward_pass_holds_are_alive() -> None:
    weight = torch.ones(64, 64, requires_grad=True)
    meter = Meter()
    with meter:
        out = (torch.ones(64, 64) @ weight).exp().sum()
        held = meter.now.total()
        assert held >= 2 * 64 * 64 * 4  # the input of the product, and the result of exp
        out.backward()
        del out
        assert meter.now.total() < held


def test_arithmetic_is_that_of_pytorchs_counter() -> None:
    meter, reference = Meter(), FlopCounterMode(display=False)
    layer = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    rows = torch.randn(5, 8)
    with reference:
        layer(rows).sum().backward()
    with meter:
        layer(rows).sum().backward()
    assert sum(cost.flops * count for cost, count in meter.costs.items()) == reference.get_total_flops()

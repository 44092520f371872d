"""Averages of weights that do not all train; `tests/scenarios/test_recipes.py` resumes such runs."""

from __future__ import annotations

import torch

from sts_lightning.training.callbacks.ema import _average


def test_the_average_by_hand() -> None:
    old, new = torch.tensor([1.0, 0.1, 3.0]), torch.tensor([2.0, 0.1, -3.0])
    torch.testing.assert_close(_average(0.25, old, new, 5), torch.tensor([1.25, 0.1, 1.5]))
    assert torch.equal(_average(0.02, old, old.clone(), 5), old)
    packed = torch.tensor([3, 200], dtype=torch.uint8)
    assert torch.equal(_average(0.02, packed, packed, 5), packed)

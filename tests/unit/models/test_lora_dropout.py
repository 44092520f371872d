"""LoRA's dropout on a CPU: positions drawn by their gaps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from sts_lightning.models.compute.lora import _drop, _dropped


@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_each_element_is_dropped_with_the_rate_alone_and_beside_others(rate: float) -> None:
    torch.manual_seed(0)
    count, draws = 400, 3000
    dropped = np.zeros((draws, count), bool)
    for row in dropped:
        positions = _dropped(count, rate)
        assert torch.equal(positions, positions.unique())  # increasing, each once
        row[positions.numpy()] = True
    per_element = dropped.sum(axis=0)
    # Binomial counts of 400 elements: their spread, their mean, that of the first and of the last ones.
    spread = (count - 1) * per_element.var(ddof=1) / (draws * rate * (1 - rate))
    assert 1e-3 < stats.chi2.sf(spread, count - 1) < 1 - 1e-3
    assert abs(per_element.mean() / draws - rate) < 4 * np.sqrt(rate * (1 - rate) / (draws * count))
    for part in (per_element[:20], per_element[-20:]):
        assert abs(part.mean() / draws - rate) < 4 * np.sqrt(rate * (1 - rate) / (draws * 20))
    neighbours = (dropped[:, 1:] & dropped[:, :-1]).mean()
    assert neighbours == pytest.approx(rate**2, rel=0.1)


def test_more_is_drawn_where_the_numbers_do_not_reach_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def no_gaps(size: int) -> torch.Tensor:
        sizes.append(size)
        return torch.zeros(size)

    monkeypatch.setattr(torch, "rand", no_gaps)
    assert _dropped(1000, 0.05).tolist() == list(range(1000))
    assert len(sizes) > 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_forward_and_backward_pass_have_one_mask_in_each_dtype(dtype: torch.dtype) -> None:
    x, upstream = torch.randn(6, 50).t().to(dtype), torch.randn(50, 6).to(dtype)  # no contiguous rows
    torch.manual_seed(1)
    expected = _dropped(300, 0.3)
    mask = torch.ones(300, dtype=dtype)
    mask[expected] = 0
    torch.manual_seed(1)
    dropped, back = _drop(x, 0.3)
    for found, whole in ((dropped, x), (back(upstream), upstream)):
        torch.testing.assert_close(found, whole * mask.view(50, 6) * (1 / 0.7))

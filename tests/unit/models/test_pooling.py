from __future__ import annotations

import pytest
import torch

from sts_lightning.models.pooling import POOLINGS, Pooling, pool


def pad(rows: list[list[int]], side: str) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(map(len, rows))
    ids, mask = (
        torch.zeros(len(rows), longest, dtype=torch.long),
        torch.zeros(len(rows), longest, dtype=torch.long),
    )
    for index, row in enumerate(rows):
        span = slice(longest - len(row), None) if side == "left" else slice(len(row))
        ids[index, span], mask[index, span] = torch.tensor(row), 1
    return ids, mask


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_by_hand_on_both_padding_sides(pooling: Pooling, side: str) -> None:
    rows = [[1, 9, 3, 9, 5], [2, 9, 4]]
    ids, mask = pad(rows, side)
    # A hidden state that shows its token: (id, layer). Padding shows 100, which must never leak.
    shown = torch.where(mask.bool(), ids, 100).float()
    hidden = [torch.stack([shown, torch.full_like(shown, layer)], dim=-1) for layer in range(4)]
    padding = 2 if side == "left" else 0
    vectors = pool(pooling, hidden, mask, torch.tensor([[3], [1 + padding]]))
    expected = {
        "cls": [[1, 3], [2, 3]],
        "mean": [[27 / 5, 3], [15 / 3, 3]],
        "last_token": [[5, 3], [4, 3]],
        "mask_token": [[9, 3], [9, 3]],
        "first_last_mean": [[27 / 5, 2], [15 / 3, 2]],  # layers 1 and 3
    }
    torch.testing.assert_close(vectors, torch.tensor(expected[pooling], dtype=torch.float32))

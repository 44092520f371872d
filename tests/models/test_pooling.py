from __future__ import annotations

import pytest
import torch

from sts_lightning.models.pooling import POOLINGS, Pooling, pool

MASK_ID = 9


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
    vectors = pool(pooling, hidden, mask, ids, MASK_ID)
    expected = {
        "cls": [[1, 3], [2, 3]],
        "mean": [[27 / 5, 3], [15 / 3, 3]],
        "last_token": [[5, 3], [4, 3]],
        "mask_token": [[9, 3], [9, 3]],
        "first_last_mean": [[27 / 5, 2], [15 / 3, 2]],  # layers 1 and 3
    }
    torch.testing.assert_close(vectors, torch.tensor(expected[pooling], dtype=torch.float32))


def test_mask_token_takes_the_last_mask() -> None:
    ids, mask = pad([[1, 9, 3, 9, 5]], "left")
    hidden = torch.arange(5.0).reshape(1, 5, 1)
    assert pool("mask_token", [hidden], mask, ids, MASK_ID).item() == 3.0


def test_mask_token_of_a_tokenizer_without_one_is_an_error() -> None:
    ids, mask = pad([[1, 9, 3], [1, 2]], "right")
    with pytest.raises(ValueError, match="needs a tokenizer with a mask token"):
        pool("mask_token", [torch.zeros(2, 3, 4)], mask, ids, None)

"""Padded chunks of token ids."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch

from sts_lightning.models.text.chunks import CHUNK_COST, chunk, spans
from sts_lightning.papers.auxiliary.second_encoder import first_sentences
from sts_lightning.testing.tiny_decoders import tiny_mistral
from tests.support.sentences import TEXTS


def test_limited_rows_are_the_same_rows() -> None:
    encoder = tiny_mistral(pooling="last_token").eval()
    rows = encoder.prepare(10_000, training=False)([TEXTS], [None])
    limited = rows.limited(3)
    assert [len(chunk["input_ids"]) for chunk in limited.chunks] == [3, 3, 2]
    assert limited.chunks[-1]["input_ids"].shape[1] < rows.chunks[0]["input_ids"].shape[1]
    torch.testing.assert_close(encoder(limited), encoder(rows), atol=2e-6, rtol=0)


def test_limited_tokens_are_padded_ones() -> None:
    """Rows of 6, 5, 4, 3, 2 and 1 tokens: two of 6 fit into 12 tokens, then three of 4, then the last one."""
    rows = chunk([[1] * length for length in (6, 5, 4, 3, 2, 1)], 100, pad_id=0)
    assert rows.largest_chunk == (6, 6)
    limited = rows.limited(most_tokens=12)
    assert [tuple(part["input_ids"].shape) for part in limited.chunks] == [(2, 6), (3, 4), (1, 1)]
    assert [tuple(part["input_ids"].shape) for part in rows.limited(2, 12).chunks] == [(2, 6), (2, 4), (2, 2)]
    assert [len(part["input_ids"]) for part in rows.limited(most_tokens=3).chunks] == [1, 1, 1, 1, 1, 1]
    assert limited.limited(most_tokens=12).chunks == limited.chunks  # what fits is not looked at again


@pytest.mark.parametrize("budget", [1, 7, 12, 1000])
def test_chunks_hold_every_row_once_within_the_budget(budget: int) -> None:
    rows = [[row + 1] * length for row, length in enumerate([3, 1, 5, 5, 2, 4, 1])]
    chunks = chunk(rows, budget, pad_id=0)
    assert chunks.num_tokens == 21
    seen = []
    for part in chunks.chunks:
        ids, mask = part["input_ids"], part["attention_mask"]
        assert len(ids) == 1 or ids.numel() <= budget
        assert mask[:, 0].all()
        assert torch.equal(ids != 0, mask.bool())
        assert mask.sum(dim=1).max() == ids.shape[1]  # padded to its own longest row
        seen += [[token for token in row if token] for row in ids.tolist()]
    assert [seen[position] for position in chunks.inverse_order.tolist()] == rows


def test_sorting_saves_padding() -> None:
    rows = [[1] * length for length in [2, 30, 3, 28, 2, 29]]
    padded = sum(part["input_ids"].numel() for part in chunk(rows, 100, 0).chunks)
    assert padded == 3 * 30 + 3 * 3


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("budget", [1, 20, 40, 90, 400])
def test_no_division_into_chunks_costs_less(budget: int, seed: int) -> None:
    lengths = np.sort(np.random.default_rng(seed).geometric(0.1, 9))[::-1]

    def cost(bounds: tuple[int, ...]) -> float:
        parts = [lengths[i:j] for i, j in zip((0, *bounds), (*bounds, 9), strict=True)]
        if any(len(part) > 1 and len(part) * part[0] > budget for part in parts):
            return float("inf")
        return sum(len(part) * part[0] for part in parts) + len(parts) * (budget // CHUNK_COST)

    least = min(cost(bounds) for count in range(9) for bounds in combinations(range(1, 9), count))
    found = spans(lengths, budget)
    assert cost(tuple(span.start for span in found[1:])) == least


def test_rows_of_equal_length_fill_their_chunks() -> None:
    expected = [slice(0, 3), slice(3, 6), slice(6, 8)]
    assert spans(np.full(8, 10), 39) == expected


def test_no_rows_form_no_chunk() -> None:
    assert spans(np.zeros(0, dtype=np.int64), 100) == []


def test_head_has_the_first_rows_in_order() -> None:
    ids = [[row + 1] * length for row, length in enumerate([3, 1, 5, 5, 2, 4])]
    whole = chunk(ids, 8, pad_id=0)
    part = first_sentences(whole, 4)
    found = [[token for token in row if token] for c in part.chunks for row in c["input_ids"].tolist()]
    assert [found[position] for position in part.inverse_order.tolist()] == ids[:4]
    assert part.num_tokens == whole.num_tokens  # not counted anew


def test_values_by_chunk_are_those_of_its_rows() -> None:
    whole = chunk([[1, 2, 3], [4], [5, 6], [7, 8, 9], [10, 11]], 6, 0)
    assert len(whole.chunks) > 1
    values = torch.cat(list(whole.by_chunk(torch.arange(5) * 10)))
    assert whole.in_sentence_order(values[:, None]).flatten().tolist() == [0, 10, 20, 30, 40]

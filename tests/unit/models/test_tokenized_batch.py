"""Padded chunks of token ids."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch

from sts_lightning.models.text.chunks import CHUNK_COST, LAUNCH_COST, Division, chunk
from sts_lightning.papers.auxiliary.second_encoder import first_sentences
from sts_lightning.testing.tiny_decoders import tiny_mistral
from tests.support.sentences import TEXTS


def test_limited_rows_are_the_same_rows() -> None:
    encoder = tiny_mistral(pooling="last_token").eval()
    rows = encoder.prepare(10_000, training=False)([TEXTS], [None])
    limited = rows.limited(3)
    assert [len(chunk["input_ids"]) for chunk in limited.chunks] == [2, 3, 3]
    assert limited.chunks[-1]["input_ids"].shape[1] < rows.chunks[0]["input_ids"].shape[1]
    torch.testing.assert_close(encoder(limited), encoder(rows), atol=2e-6, rtol=0)


def test_limited_tokens_are_padded_ones() -> None:
    """Rows of 6, 5, 4, 3, 2 and 1 tokens; a chunk costs 3 more than its tokens, these 24 + 9."""
    rows = chunk([[1] * length for length in (6, 5, 4, 3, 2, 1)], Division(100), pad_id=0)
    assert rows.largest_chunk == (6, 6)
    limited = rows.limited(most_tokens=12)
    assert [tuple(part["input_ids"].shape) for part in limited.chunks] == [(2, 6), (2, 4), (2, 2)]
    assert [tuple(part["input_ids"].shape) for part in rows.limited(2, 12).chunks] == [(2, 6), (2, 4), (2, 2)]
    assert [len(part["input_ids"]) for part in rows.limited(most_tokens=3).chunks] == [1, 1, 1, 1, 1, 1]
    assert limited.limited(most_tokens=12).chunks == limited.chunks  # what fits is not looked at again


@pytest.mark.parametrize("limits", [(None, 12), (2, None), (3, 20)])
@pytest.mark.parametrize("denoise", [False, True])
def test_a_limited_batch_is_divided_once(limits: tuple[int | None, int | None], denoise: bool) -> None:
    """A chunk holds rows of several chunks before, which had other widths, as if divided so at first."""
    generator = np.random.default_rng(0)
    lengths = [int(length) for length in generator.integers(1, 12, 20)]
    ids, at = [[row + 1] * length for row, length in enumerate(lengths)], [0] * 20
    first = Division(36, launch=10)
    batch = chunk(ids, first, pad_id=99, mask_at=at)
    last = {"input_ids": torch.ones(2, 3, dtype=torch.int64), "attention_mask": torch.tensor([[1, 1, 0]] * 2)}
    if denoise:
        batch = replace(batch, chunks=[*batch.chunks, last], baseline=torch.zeros(20, dtype=torch.int64))
    found = batch.limited(*limits).chunks
    expected = chunk(ids, first.within(*limits), pad_id=99, mask_at=at).chunks
    assert len(batch.chunks) - denoise != len(expected)
    for part, other in zip(found, expected, strict=not denoise):
        assert part.keys() == other.keys()
        assert all(torch.equal(part[name], other[name]) for name in part)
    if denoise:
        assert [rows["input_ids"].tolist() for rows in found[len(expected) :]] == [[[1, 1]] * 2]


def test_the_last_chunks_within_a_micro_batch() -> None:
    batch = chunk([[1] * length for length in (9, 8, 8, 3, 3, 3, 3)], Division(12), 0)
    assert [tuple(part["input_ids"].shape) for part in batch.chunks] == [(1, 9), (1, 8), (1, 8), (4, 3)]
    for limits, count in {(5, None): 2, (4, None): 1, (None, 20): 2, (None, 28): 3, (1, 1): 1}.items():
        assert batch.last_within(*limits) == count
    assert batch.last_within(None, None) == 4


@pytest.mark.parametrize("budget", [1, 7, 12, 1000])
def test_chunks_hold_every_row_once_within_the_budget(budget: int) -> None:
    rows = [[row + 1] * length for row, length in enumerate([3, 1, 5, 5, 2, 4, 1])]
    chunks = chunk(rows, Division(budget), pad_id=0)
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
    padded = sum(part["input_ids"].numel() for part in chunk(rows, Division(100), 0).chunks)
    assert padded == 3 * 30 + 3 * 3


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "division",
    [Division(1), Division(20), Division(40), Division(90), Division(400), Division(90, rows=3)]
    + [Division(90, launch=launch) for launch in (8, 30, 200)],
)
def test_no_division_into_chunks_costs_less(division: Division, seed: int) -> None:
    lengths = np.sort(np.random.default_rng(seed).geometric(0.1, 9))[::-1]

    def cost(bounds: tuple[int, ...]) -> float:
        parts = [lengths[i:j] for i, j in zip((0, *bounds), (*bounds, 9), strict=True)]
        sizes = [len(part) * part[0] for part in parts]
        most, launch = division.rows or 9, division.launch
        if any(
            len(p) > 1 and (len(p) > most or s > division.tokens) for p, s in zip(parts, sizes, strict=True)
        ):
            return float("inf")
        return sum(
            max(launch, size + (launch // LAUNCH_COST or division.tokens // CHUNK_COST)) for size in sizes
        )

    least = min(cost(bounds) for count in range(9) for bounds in combinations(range(1, 9), count))
    found = division.spans(lengths)
    assert cost(tuple(span.start for span in found[1:])) == least


def test_rows_of_equal_length_fill_their_chunks() -> None:
    expected = [slice(0, 3), slice(3, 6), slice(6, 8)]
    assert Division(39).spans(np.full(8, 10)) == expected


def test_no_rows_form_no_chunk() -> None:
    assert Division(100).spans(np.zeros(0, dtype=np.int64)) == []


def test_head_has_the_first_rows_in_order() -> None:
    ids = [[row + 1] * length for row, length in enumerate([3, 1, 5, 5, 2, 4])]
    whole = chunk(ids, Division(8), pad_id=0)
    part = first_sentences(whole, 4)
    found = [[token for token in row if token] for c in part.chunks for row in c["input_ids"].tolist()]
    assert [found[position] for position in part.inverse_order.tolist()] == ids[:4]
    assert part.num_tokens == whole.num_tokens  # not counted anew


def test_values_by_chunk_are_those_of_its_rows() -> None:
    whole = chunk([[1, 2, 3], [4], [5, 6], [7, 8, 9], [10, 11]], Division(6), 0)
    assert len(whole.chunks) > 1
    values = torch.cat(list(whole.by_chunk(torch.arange(5) * 10)))
    assert whole.in_sentence_order(values[:, None]).flatten().tolist() == [0, 10, 20, 30, 40]

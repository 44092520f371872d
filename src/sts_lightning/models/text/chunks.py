"""Rows of token ids in padded chunks of similar length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

CHUNK_COST = 4
"""Each chunk takes further time, about that of a quarter of its tokens: Python, and the start of kernels."""


@dataclass
class TokenizedBatch:
    """Tokenised sentences in chunks of similar length, each padded to its longest row.

    The N sentences may be followed by M bare templates, whose vectors are subtracted.

    Attributes:
        chunks: ``input_ids`` and ``attention_mask``, each (rows, length) in int64, ``position_ids`` where
            they differ from 0, 1, 2, ..., ``mask_at``, the position of the template's mask token in each
            row, (rows, 1), if it has one, and ``view_positions``, those of the V views' vectors in each row,
            (rows, V), if a row holds them all (`SentenceTokenizer.tokens_after_view`).
        inverse_order: Index that puts the concatenated rows of the chunks back in the order of the sentences,
            (N + M,).
        order: Sentence of each row of the chunks. An array, since Lightning would move a tensor to the GPU
            with the others, and to read it there each step would wait for the card.
        num_tokens: Number of tokens in all chunks, padding excluded.
        baseline: Index of each sentence's bare template, from 0 to M - 1, (N,), or None.
        truncated: Number of sentences that were truncated, counted in evaluation alone.
    """

    chunks: list[dict[str, Tensor]]
    inverse_order: Tensor
    order: np.ndarray
    num_tokens: int
    baseline: Tensor | None = None
    truncated: int = 0

    def in_sentence_order(self, vectors: Tensor) -> Tensor:
        """Put the vectors of the chunks' rows in the order of the sentences, and subtract the bare templates.

        Args:
            vectors: Vectors in the order of the chunks, (N + M, D), or (N, V, D) of rows with all views.

        Returns:
            (N, D), or (V * N, D), one view after the other.
        """
        vectors = vectors[self.inverse_order.to(vectors.device)]
        if vectors.dim() == 3:
            return vectors.transpose(0, 1).flatten(0, 1)
        if self.baseline is None:
            return vectors
        baseline = self.baseline.to(vectors.device)
        return vectors[: len(baseline)] - vectors[len(baseline) :][baseline]

    def by_chunk(self, values: Tensor) -> list[Tensor]:
        """Divide values of the sentences, (N, ...), among the chunks."""
        rows = values[to_device(torch.from_numpy(self.order), values.device)]
        return list(rows.split([len(chunk["input_ids"]) for chunk in self.chunks]))

    def limited(self, most_rows: int | None = None, most_tokens: int | None = None) -> TokenizedBatch:
        """Return the same batch in chunks of at most so many rows and padded tokens, at least one row each.

        Chunks that are small enough stay as they are: only their shapes are looked at.
        """
        pieces: list[dict[str, Tensor]] = []
        for chunk in self.chunks:
            rows, width = chunk["input_ids"].shape
            if rows <= _rows_that_fit(most_rows, most_tokens, width, rows):
                pieces.append(chunk)
                continue
            lengths, start = chunk["attention_mask"].sum(dim=1).tolist(), 0
            while start < rows:
                width = max(lengths[start:])
                end = start + _rows_that_fit(most_rows, most_tokens, width, rows)
                width = max(lengths[start:end])
                pieces.append({name: values[start:end, :width] for name, values in chunk.items()})
                start = end
        return replace(self, chunks=pieces)

    @property
    def padded_tokens(self) -> int:
        """Number of tokens in all chunks, padding included."""
        return sum(chunk["input_ids"].numel() for chunk in self.chunks)

    @property
    def largest_chunk(self) -> tuple[int, int]:
        """Rows and padded length of the chunk with the most padded tokens."""
        rows, width = max((chunk["input_ids"].shape for chunk in self.chunks), key=math.prod)
        return rows, width


def to_device(values: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor of the host to a device; the host does not wait for what a GPU is computing."""
    if device.type != "cuda":
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


def _rows_that_fit(most_rows: int | None, most_tokens: int | None, width: int, rows: int) -> int:
    fitting = rows if most_tokens is None else max(1, most_tokens // width)
    return min(rows, fitting, most_rows or rows)


def chunk(
    ids: list[list[int]],
    chunk_tokens: int,
    pad_id: int,
    mask_at: Sequence[int] | None = None,
) -> TokenizedBatch:
    """Divide rows into chunks, longest rows first, and pad each chunk to its longest row.

    Args:
        ids: Token ids of each row.
        chunk_tokens: Maximum number of tokens of a chunk, padding included; a longer row is one chunk.
        pad_id: Id of the pad token.
        mask_at: Position of each row's mask token that is pooled, with padding on the right; None without.
    """
    lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
    order = np.argsort(-lengths, kind="stable")
    chunks = [
        pad(
            [ids[row] for row in order[span]],
            int(lengths[order[span.start]]),
            pad_id,
            None if mask_at is None else [mask_at[row] for row in order[span]],
        )
        for span in spans(lengths[order], chunk_tokens)
    ]
    return TokenizedBatch(chunks, torch.from_numpy(np.argsort(order)), order, int(lengths.sum()))


def spans(lengths: np.ndarray, chunk_tokens: int) -> list[slice]:
    """Divide rows into chunks such that padding and number of chunks cost the least, by dynamic programming.

    Each chunk costs its padded tokens and a `CHUNK_COST`-th of ``chunk_tokens``.

    Args:
        lengths: Number of tokens of each row, in descending order.
        chunk_tokens: As for `chunk`.

    Returns:
        The chunks, in order.
    """
    cost = np.zeros(len(lengths) + 1, dtype=np.int64)  # of the rows from each one on
    ends = [0] * len(lengths)
    for start in reversed(range(len(lengths))):
        width = int(lengths[start])
        most = min(max(1, chunk_tokens // width), len(lengths) - start)
        # Among equal costs, the largest chunk is taken.
        costs = width * np.arange(most, 0, -1) + cost[start + 1 : start + most + 1][::-1]
        index = int(costs.argmin())
        ends[start] = start + most - index
        cost[start] = costs[index] + chunk_tokens // CHUNK_COST
    chunks, start = [], 0
    while start < len(lengths):
        chunks.append(slice(start, ends[start]))
        start = ends[start]
    return chunks


def pad(
    rows: Sequence[Sequence[int]],
    length: int,
    pad_id: int,
    mask_at: Sequence[int] | None = None,
) -> dict[str, Tensor]:
    """Pad rows of token ids to one length, on the right.

    Args:
        rows: Token ids of each row.
        length: Length of the padded rows.
        pad_id: Id of the pad token.
        mask_at: As for `chunk`.

    Returns:
        ``input_ids`` and ``attention_mask``, each (rows, length) in int64, and ``mask_at``, (rows, 1).
    """
    input_ids = np.full((len(rows), length), pad_id, dtype=np.int64)
    attention_mask = np.zeros((len(rows), length), dtype=np.int64)
    for index, row in enumerate(rows):
        input_ids[index, : len(row)] = row
        attention_mask[index, : len(row)] = 1
    padded = {"input_ids": torch.from_numpy(input_ids), "attention_mask": torch.from_numpy(attention_mask)}
    return padded if mask_at is None else padded | {"mask_at": torch.tensor(mask_at)[:, None]}

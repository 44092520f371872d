"""Padded chunks of token ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

CHUNK_COST = 4
"""A chunk takes time of its own, about that of a quarter of its tokens: Python, and the start of kernels."""


@dataclass
class TokenizedBatch:
    """Tokenised sentences, cut into chunks of similar length, each padded to its own longest row.

    The N sentences may be followed by M bare templates, whose vectors are subtracted.

    Attributes:
        chunks: ``input_ids`` and ``attention_mask``, each (rows, length) in int64, ``position_ids`` where
            they differ from 0, 1, 2, ..., and ``mask_at``, the position of the template's mask token in each
            row, (rows, 1), if it has one.
        restore: Index that puts the concatenated rows of the chunks back in the order of the sentences,
            (N + M,).
        num_tokens: Number of tokens in all chunks, padding excluded.
        baseline: Index of each sentence's bare template, from 0 to M - 1, (N,), or None.
    """

    chunks: list[dict[str, Tensor]]
    restore: Tensor
    num_tokens: int
    baseline: Tensor | None = None

    def arrange(self, vectors: Tensor) -> Tensor:
        """Put the vectors of the chunks' rows in the order of the sentences, and subtract the bare templates.

        Args:
            vectors: Vectors in the order of the chunks, (N + M, D).

        Returns:
            (N, D).
        """
        vectors = vectors[self.restore.to(vectors.device)]
        if self.baseline is None:
            return vectors
        baseline = self.baseline.to(vectors.device)
        return vectors[: len(baseline)] - vectors[len(baseline) :][baseline]

    def subtracting(self, extra: dict[str, Tensor], baseline: list[int]) -> TokenizedBatch:
        """Return the same batch with one more chunk, of bare templates whose vectors are subtracted.

        Args:
            extra: The chunk.
            baseline: Index of each sentence's template.
        """
        rows = torch.arange(len(baseline), len(baseline) + len(extra["input_ids"]))
        return TokenizedBatch(
            [*self.chunks, extra],
            torch.cat([self.restore, rows]),
            self.num_tokens + int(extra["attention_mask"].sum()),
            torch.tensor(baseline),
        )

    def by_chunk(self, values: Tensor) -> Sequence[Tensor]:
        """Divide values of the sentences, (N, ...), among the chunks."""
        order = torch.argsort(self.restore.cpu())
        return list(values[order].split([len(chunk["input_ids"]) for chunk in self.chunks]))

    def head(self, count: int) -> TokenizedBatch:
        """Return the first ``count`` sentences, without their bare templates."""
        order = torch.argsort(self.restore)
        parts = order.split([len(chunk["input_ids"]) for chunk in self.chunks])
        chunks = [
            {name: values[part < count] for name, values in chunk.items()}
            for chunk, part in zip(self.chunks, parts, strict=True)
            if bool((part < count).any())
        ]
        kept = order[order < count]
        num_tokens = sum(int(chunk["attention_mask"].sum()) for chunk in chunks)
        return TokenizedBatch(chunks, torch.argsort(kept), num_tokens)

    def limited(self, count: int) -> TokenizedBatch:
        """Return the same batch in chunks of at most ``count`` rows."""
        parts = [
            {name: values[start : start + count] for name, values in chunk.items()}
            for chunk in self.chunks
            for start in range(0, len(chunk["input_ids"]), count)
        ]
        return replace(self, chunks=[_trim(part) for part in parts])


def chunk(
    ids: list[list[int]],
    chunk_tokens: int,
    pad_id: int,
    mask_at: Sequence[int] | None = None,
) -> TokenizedBatch:
    """Cut rows into chunks, longest rows first, and pad each chunk to its longest row.

    Args:
        ids: Token ids of each row.
        chunk_tokens: Maximum number of tokens of a chunk, padding included; a longer row is its own chunk.
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
    return TokenizedBatch(chunks, torch.from_numpy(np.argsort(order)), int(lengths.sum()))


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
        # Of several the largest chunk.
        costs = width * np.arange(most, 0, -1) + cost[start + 1 : start + most + 1][::-1]
        index = int(costs.argmin())
        ends[start] = start + most - index
        cost[start] = costs[index] + chunk_tokens // CHUNK_COST
    found, start = [], 0
    while start < len(lengths):
        found.append(slice(start, ends[start]))
        start = ends[start]
    return found


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


def _trim(chunk: dict[str, Tensor]) -> dict[str, Tensor]:
    """Drop the columns that are padding in every row."""
    length = int(chunk["attention_mask"].sum(dim=1).max())
    return {name: values[:, :length] for name, values in chunk.items()}

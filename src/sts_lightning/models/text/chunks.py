"""Rows of token ids in padded chunks of similar length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

CHUNK_COST, LAUNCH_COST = 4, 8
"""What each chunk takes besides its tokens, as a part of the most tokens of a chunk, or of its launch.

On a CPU these are Python and the start of kernels; on a GPU quantised weights are unpacked once a pass.
"""


PADDED = ("input_ids", "attention_mask", "position_ids")
"""Tensors of a chunk that have a column for each token."""


class Division(NamedTuple):
    r"""How rows are divided into chunks.

    A chunk of t padded tokens costs :math:`\max(l, t + l / 8)` tokens, where l is the launch; without one,
    :math:`t + T / 4`, where T is the most tokens of a chunk.

    Attributes:
        tokens: Maximum number of tokens of a chunk, padding included; a longer row is one chunk.
        launch: Tokens that a GPU computes while the host launches the kernels of a chunk: a smaller chunk
            takes as long. 0 on a CPU, which does one after the other.
        rows: Maximum number of rows of a chunk; None for any.
    """

    tokens: int
    launch: int = 0
    rows: int | None = None

    def within(self, rows: int | None, tokens: int | None) -> Division:
        """Return the division with further limits; None for no further one."""
        rows = rows if self.rows is None else min(self.rows, rows or self.rows)
        return self._replace(tokens=min(self.tokens, tokens or self.tokens), rows=rows)

    def most_rows(self, width: int) -> int:
        """Return the number of rows of a chunk that is so many tokens wide."""
        most = max(1, self.tokens // width)
        return most if self.rows is None else min(most, self.rows)

    def spans(self, lengths: np.ndarray) -> list[slice]:
        """Divide rows into the chunks that cost the least, by dynamic programming.

        Args:
            lengths: Number of tokens of each row, in descending order.

        Returns:
            The chunks, in order.
        """
        each = self.launch // LAUNCH_COST or self.tokens // CHUNK_COST
        cost = np.zeros(len(lengths) + 1, dtype=np.int64)  # of the rows from each one on
        ends = [0] * len(lengths)
        for start in reversed(range(len(lengths))):
            width = int(lengths[start])
            most = min(self.most_rows(width), len(lengths) - start)
            # Among equal costs, the largest chunk is taken.
            costs = np.maximum(self.launch, width * np.arange(most, 0, -1) + each)
            costs += cost[start + 1 : start + most + 1][::-1]
            index = int(costs.argmin())
            ends[start], cost[start] = start + most - index, costs[index]
        chunks, start = [], 0
        while start < len(lengths):
            chunks.append(slice(start, ends[start]))
            start = ends[start]
        return chunks


UNDIVIDED = Division(2**62)


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
        division: How the rows were divided into chunks.
        pad_id: Id of the pad token.
    """

    chunks: list[dict[str, Tensor]]
    inverse_order: Tensor
    order: np.ndarray
    num_tokens: int
    baseline: Tensor | None = None
    truncated: int = 0
    division: Division = UNDIVIDED
    pad_id: int = 0

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
        """Return the same batch, divided into chunks of at most so many rows and padded tokens.

        Where all chunks are small enough, only their shapes are looked at.
        """
        division = self.division.within(most_rows, most_tokens)
        shapes = [chunk["input_ids"].shape for chunk in self.chunks]
        if all(rows <= division.most_rows(width) for rows, width in shapes):
            return self
        # Bare templates are a chunk of their own.
        groups = [self.chunks] if self.baseline is None else [self.chunks[:-1], self.chunks[-1:]]
        chunks = [chunk for group in groups for chunk in _divided(group, division, self.pad_id)]
        return replace(self, chunks=chunks, division=division)

    def last_within(self, most_rows: int | None, most_tokens: int | None) -> int:
        """Return how many of the last chunks together have at most so many rows and tokens; at least 1."""
        rows = tokens = 0
        for count, chunk in enumerate(reversed(self.chunks)):
            rows, tokens = rows + len(chunk["input_ids"]), tokens + chunk["input_ids"].numel()
            if rows > (most_rows or rows) or tokens > (most_tokens or tokens):
                return max(1, count)
        return len(self.chunks)

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


def _divided(chunks: list[dict[str, Tensor]], division: Division, pad_id: int) -> list[dict[str, Tensor]]:
    """Divide the rows of chunks anew."""
    lengths = torch.cat([chunk["attention_mask"].sum(dim=1) for chunk in chunks]).cpu().numpy()
    # Of rows that are not in order of length a chunk is as wide as the longest one from its first row on.
    widths = np.maximum.accumulate(lengths[::-1])[::-1]
    ends = np.cumsum([len(chunk["input_ids"]) for chunk in chunks])
    divided = []
    for span in division.spans(widths):
        width, pieces = int(lengths[span].max()), []
        for chunk, end in zip(chunks, ends, strict=True):
            start = end - len(chunk["input_ids"])
            rows = slice(max(0, span.start - start), max(0, span.stop - start))
            if len(chunk["input_ids"][rows]):
                pieces.append({name: values[rows] for name, values in chunk.items()})
        joined = {}
        for name in pieces[0]:
            values = [piece[name] for piece in pieces]
            if name in PADDED:
                value = pad_id if name == "input_ids" else 0
                values = [F.pad(rows, (0, width - rows.shape[1]), value=value) for rows in values]
            joined[name] = torch.cat(values)
        divided.append(joined)
    return divided


def chunk(
    ids: list[list[int]],
    division: Division,
    pad_id: int,
    mask_at: Sequence[int] | None = None,
) -> TokenizedBatch:
    """Divide rows into chunks, longest rows first, and pad each chunk to its longest row.

    Args:
        ids: Token ids of each row.
        division: How they are divided.
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
        for span in division.spans(lengths[order])
    ]
    inverse_order = torch.from_numpy(np.argsort(order))
    return TokenizedBatch(chunks, inverse_order, order, int(lengths.sum()), division=division, pad_id=pad_id)


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

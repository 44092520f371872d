"""Encoding of sentences that occur several times, and the cosines of given pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import distributed

from sts_lightning.core.distributed import Shard
from sts_lightning.evaluation.statistics import pair_cosines, require_finite


class Encoder(Protocol):
    """Anything that maps sentences to vectors."""

    def encode(self, sentences: Sequence[str], /) -> np.ndarray:
        """Return vectors of shape (len(sentences), D)."""
        ...


@dataclass(frozen=True)
class Embedded:
    """Vectors of distinct sentences, looked up by sentence.

    Attributes:
        vectors: (N, D), in the order in which the sentences first occur.
        index: Row of each sentence.
    """

    vectors: np.ndarray
    index: dict[str, int]

    def __getitem__(self, texts: Sequence[str]) -> np.ndarray:
        """Return the vectors of sentences, repeated or not, of shape (len(texts), D)."""
        rows: np.ndarray = self.vectors[[self.index[text] for text in texts]]
        return rows


def encode_distinct(encoder: Encoder, texts: Iterable[str], **options: Any) -> Embedded:
    """Encode each distinct sentence once.

    Args:
        encoder: Encoder of the sentences.
        texts: Sentences, which may repeat.
        **options: Further arguments of ``encode``.

    Raises:
        TrainingError: A vector is NaN or infinite.
    """
    index = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    encode: Callable[..., np.ndarray] = encoder.encode
    return Embedded(require_finite(np.asarray(encode(list(index), **options))), index)


def score_pairs(encoder: Encoder, first: Sequence[str], second: Sequence[str]) -> np.ndarray:
    """Compute the cosine of each pair, (N,); each distinct sentence is encoded once.

    Args:
        encoder: Encoder of the sentences.
        first: First sentences, N of them.
        second: Second sentences, N of them.

    Raises:
        TrainingError: A vector is NaN or infinite.
    """
    vectors = encode_distinct(encoder, (*first, *second))
    return pair_cosines(vectors[first], vectors[second])


class DividedEncoder:
    """The same encoder in several processes, each of which encodes a part of the sentences.

    All of them call `encode` with the same sentences and get the vectors of all. In a single process it is
    the encoder.

    Args:
        encoder: The encoder of this process, with ``encode`` and the ``device`` of tensors to exchange.
    """

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        """Embed N sentences, at least one, in the order given: (N, D) in float32."""
        shard = Shard.current()
        if shard.world_size == 1:
            vectors_of_all: np.ndarray = self.encoder.encode(sentences)
            return vectors_of_all
        parts = dealt(sentences, shard.world_size)
        own = [sentences[row] for row in parts[shard.rank]] or sentences[:1]  # every process has to run
        vectors = torch.from_numpy(self.encoder.encode(own)).to(self.encoder.device)
        padded = vectors.new_zeros(len(parts[0]), vectors.shape[1])
        padded[: len(vectors)] = vectors
        everyone = [torch.empty_like(padded) for _ in parts]
        distributed.all_gather(everyone, padded)
        return in_order(parts, [values.cpu().numpy() for values in everyone])


def dealt(sentences: Sequence[str], parts: int) -> list[list[int]]:
    """Return the rows of each part: the sentences, ordered by length, are dealt out in turn.

    The first part is a largest one, and some are empty if there are more of them than sentences.
    """
    order = sorted(range(len(sentences)), key=lambda row: len(sentences[row]))
    return [order[part::parts] for part in range(parts)]


def in_order(parts: Sequence[Sequence[int]], vectors: Sequence[np.ndarray]) -> np.ndarray:
    """Return the vectors of all sentences in their order, float32 of shape (N, D).

    Args:
        parts: Rows of each part, as `dealt` returns them.
        vectors: For each part the vectors of its rows; rows beyond these are left out.
    """
    found = np.empty((sum(map(len, parts)), vectors[0].shape[1]), dtype=np.float32)
    for part, values in zip(parts, vectors, strict=True):
        found[part] = values[: len(part)]
    return found

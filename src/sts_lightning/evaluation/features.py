"""Features for regressions on frozen sentence vectors."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

import numpy as np

from sts_lightning.evaluation.encoding import Encoder, encode_distinct

log = logging.getLogger(__name__)


class FrozenFeatures:
    """Features by SentEval's protocol, from vectors that are computed once for each distinct sentence.

    Args:
        encoder: Frozen encoder.
        texts: All sentences whose features will be needed.
    """

    def __init__(self, encoder: Encoder, texts: Iterable[str]) -> None:
        distinct = list(dict.fromkeys(texts))
        log.info("%s sentences to encode", f"{len(distinct):,}")
        self._vectors = encode_distinct(encoder, distinct)

    def __call__(self, examples: Sequence[tuple[str, ...]]) -> np.ndarray:
        """Return the vector of each sentence (N, D), or [|u - v|; u * v] of each pair (N, 2 D)."""
        columns = [
            self._vectors[column].astype(np.float32, copy=False) for column in zip(*examples, strict=True)
        ]
        if len(columns) == 1:
            return columns[0]
        first, second = columns
        return np.concatenate([np.abs(first - second), first * second], axis=1)

"""What a regression on frozen sentence vectors reads."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

import numpy as np

from sts_lightning.evaluation.correlation import require_finite
from sts_lightning.evaluation.sts import Encoder

log = logging.getLogger(__name__)


class FrozenFeatures:
    """Features by SentEval's protocol, from vectors that are computed once for each distinct sentence.

    Args:
        encoder: It is not trained.
        texts: All sentences that will be asked for.
    """

    def __init__(self, encoder: Encoder, texts: Iterable[str]) -> None:
        distinct = list(dict.fromkeys(texts))
        self._index = {text: row for row, text in enumerate(distinct)}
        log.info("%s sentences to encode", f"{len(distinct):,}")
        self._vectors = require_finite(np.asarray(encoder.encode(distinct), dtype=np.float32))

    def __call__(self, examples: Sequence[tuple[str, ...]]) -> np.ndarray:
        """The vector of a sentence (N, D), or [|u - v|; u * v] of a pair (N, 2 D)."""
        columns = [
            self._vectors[[self._index[text] for text in column]] for column in zip(*examples, strict=True)
        ]
        if len(columns) == 1:
            return columns[0]
        first, second = columns
        return np.concatenate([np.abs(first - second), first * second], axis=1)

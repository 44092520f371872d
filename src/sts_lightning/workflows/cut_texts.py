"""How many of the texts of a run are longer than what the encoder reads."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import numpy as np
from datasets import Dataset

from sts_lightning.data.module import COLUMNS
from sts_lightning.models.encoder import SentenceEncoder

log = logging.getLogger(__name__)

MOST = 20_000
"""Texts that are tokenised to count; of more, as many at equal distances."""


def cut_share(encoder: SentenceEncoder, tables: Iterable[Dataset], length: int | None) -> float:
    """Return the share of the distinct texts of tables that an encoder cuts, an estimate if there are many.

    Args:
        encoder: The encoder.
        tables: Tables of sentences.
        length: Number of tokens after which it cuts; None for no limit.
    """
    texts = list(
        dict.fromkeys(
            text
            for table in tables
            for column in COLUMNS
            if column in table.column_names
            for text in table[column]
        )
    )
    if len(texts) > MOST:
        texts = [texts[index] for index in np.linspace(0, len(texts) - 1, MOST).astype(int)]
    return encoder.tokenizer.count_cut(texts, length) / len(texts) if texts else 0.0


def report_cut(
    encoder: SentenceEncoder, evaluated: Iterable[Dataset], trained: Dataset | None = None
) -> None:
    """Log the shares of the texts that an encoder cuts.

    Args:
        encoder: The encoder.
        evaluated: Tables of dev and test pairs.
        trained: Table of training examples.
    """
    parts = [("dev and test texts", evaluated, encoder.tokenizer.evaluation_length)]
    if trained is not None:
        parts.insert(0, ("training texts", [trained], encoder.tokenizer.max_length))
    words = []
    for name, tables, length in parts:
        where = "" if length is None else f" (after {length} tokens)"
        words.append(f"{100 * cut_share(encoder, tables, length):.3g} % of the {name}{where}")
    log.info("cut by max_length: %s", ", ".join(words))

"""How many of the texts of a run are longer than what the encoder reads."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from datasets import Dataset
from datasets.arrow_dataset import Column

from sts_lightning.models.encoder import SentenceEncoder

log = logging.getLogger(__name__)

READ = 100_000
"""Texts that are read to find the distinct ones; of more, as many at equal distances."""

MOST = 20_000
"""Distinct texts that are tokenised to count; of more, as many at equal distances."""


class CutShare(NamedTuple):
    """Share of texts that are cut.

    Attributes:
        share: The share, from 0 to 1.
        sampled: Whether it is that of a sample of the texts.
    """

    share: float
    sampled: bool


def cut_share(encoder: SentenceEncoder, tables: Iterable[Dataset], length: int | None) -> CutShare:
    """Return the share of the distinct texts of tables that an encoder cuts.

    Of more than `READ` texts a sample is read, and of more than `MOST` distinct ones a sample is tokenised,
    both at equal distances, so that the cost is bounded and the share the same in every run.

    Args:
        encoder: The encoder.
        tables: Tables of sentences.
        length: Number of tokens after which it cuts; None for no limit.
    """
    columns = [
        table[column] for table in tables for column in table.column_names if column.startswith("sentence")
    ]
    read = _read(columns)
    distinct = list(dict.fromkeys(read))
    texts = [distinct[index] for index in _places(len(distinct), MOST)]
    sampled = len(read) < sum(map(len, columns)) or len(texts) < len(distinct)
    return CutShare(encoder.tokenizer.count_cut(texts, length) / len(texts) if texts else 0.0, sampled)


def _read(columns: Sequence[Column]) -> list[str]:
    """Return at most `READ` texts of columns, at equal distances in the order of the columns."""
    ends = np.cumsum([len(column) for column in columns], dtype=int)
    places = np.array(_places(int(ends[-1]) if len(ends) else 0, READ), dtype=int)
    texts: list[str] = []
    for column, end in zip(columns, ends, strict=True):
        start = end - len(column)
        inside = places[(start <= places) & (places < end)] - start
        texts += column[inside.tolist()]
    return texts


def _places(count: int, most: int) -> list[int]:
    """Return ascending indices below a count: all of them, or as many as allowed at equal distances."""
    places: list[int] = np.linspace(0, count - 1, min(count, most)).astype(int).tolist()
    return places


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
        found = cut_share(encoder, tables, length)
        whole = "a sample of the " if found.sampled else "the "
        words.append(f"{100 * found.share:.3g} % of {whole}{name}{where}")
    log.info("cut by max_length: %s", ", ".join(words))

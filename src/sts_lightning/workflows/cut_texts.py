"""How many of the texts of a run are longer than what the encoder reads."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from datasets import Dataset

from sts_lightning.models.encoder import SentenceEncoder

log = logging.getLogger(__name__)

MOST = 10_000
"""Rows of a table that are looked at; of more, some at equal distances."""


def report_cut(
    encoder: SentenceEncoder, evaluated: Sequence[Dataset], trained: Dataset | None = None
) -> None:
    """Log the shares of the texts that an encoder cuts."""
    parts = [("dev and test texts", evaluated, encoder.tokenizer.evaluation_length)]
    if trained is not None:
        parts.insert(0, ("training texts", [trained], encoder.tokenizer.max_length))
    words = []
    for name, tables, length in parts:
        where = "" if length is None else f" (after {length} tokens)"
        whole = "a sample of the " if any(len(table) > MOST for table in tables) else "the "
        words.append(f"{100 * cut_share(encoder, tables, length):.3g} % of {whole}{name}{where}")
    log.info("cut by max_length: %s", ", ".join(words))


def cut_share(encoder: SentenceEncoder, tables: Sequence[Dataset], length: int | None) -> float:
    """Return the share of the distinct texts of tables that an encoder cuts after so many tokens."""
    rows = [table[:: -(-len(table) // MOST) or 1] for table in tables]
    columns = [values for row in rows for name, values in row.items() if name.startswith("sentence")]
    texts = list({text for values in columns for text in values})
    return encoder.tokenizer.count_cut(texts, length) / len(texts) if texts else 0.0

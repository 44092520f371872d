"""What an encoder does not see of texts: what is truncated, and the tokens that it does not know."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sts_lightning.data.table import NEGATIVES, Table
from sts_lightning.models.encoder import SentenceEncoder

log = logging.getLogger(__name__)

SAMPLED_ROWS = 10_000
"""Rows of a table that are looked at; of more, some at equal distances."""

MANY_UNKNOWN = 10
"""Percentage of unknown tokens from which there is a warning."""


def report_truncation(
    encoder: SentenceEncoder, evaluated: Sequence[Table], trained: Table | None = None
) -> None:
    """Log the shares of the texts that an encoder truncates, and of the tokens that it does not know."""
    parts = [("dev and test texts", evaluated, encoder.tokenizer.lengths.eval)]
    if trained is not None:
        parts.insert(0, ("training texts", [trained], encoder.tokenizer.lengths.train))
    report_unseen(encoder, [(name, columns_of(tables), length) for name, tables, length in parts])


def columns_of(tables: Sequence[Table]) -> list[Sequence[str | None]]:
    """Return the columns of tables that hold sentences."""
    columns = [table[name] for table in tables for name in table.columns if name.startswith("sentence")]
    lists = [table[NEGATIVES] for table in tables if NEGATIVES in table.columns]
    # Of joint data another part has None.
    return columns + [[text for listed in column for text in listed or ()] for column in lists]


def report_unseen(
    encoder: SentenceEncoder, parts: Sequence[tuple[str, Sequence[Sequence[str | None]], int | None]]
) -> None:
    """Log what an encoder does not see of texts; `SentenceEncoder.encode` does not warn of it again.

    Args:
        encoder: The encoder.
        parts: Name, columns of texts, and the number of tokens after which they are truncated.
    """
    words, shares = [], []
    for name, columns, length in parts:
        sampled = (text for column in columns for text in column[:: -(-len(column) // SAMPLED_ROWS) or 1])
        texts = [text for text in dict.fromkeys(sampled) if text is not None]
        unseen = encoder.tokenizer.count_unseen(texts, length)
        where = "" if length is None else f" (after {length} tokens)"
        whole = "a sample of the " if any(len(column) > SAMPLED_ROWS for column in columns) else "the "
        words.append(f"{100 * unseen.truncated / max(1, len(texts)):.3g} % of {whole}{name}{where}")
        shares.append((name, 100 * unseen.unknown / max(1, unseen.tokens)))
    unknown = ", ".join(f"{share:.3g} %" for _, share in shares)
    log.info("truncated by max_length: %s; unknown tokens: %s", ", ".join(words), unknown)
    for name, share in shares:
        if share > MANY_UNKNOWN:
            log.warning(
                "WARNING: %.3g %% of the tokens of the %s are unknown to the model's tokenizer, to which all "
                "such words are the same; choose a model that knows their language or signs.",
                share,
                name,
            )
    encoder.tells_truncation = False

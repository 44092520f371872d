"""Scores of an encoder on the dev pairs and the test tasks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from datasets import Dataset
from omegaconf import DictConfig

from sts_lightning.data.module import DataModule
from sts_lightning.data.tables import gold_of
from sts_lightning.evaluation.binary import BinaryScores, best_thresholds, is_binary, score_binary
from sts_lightning.evaluation.dev_scores import DevScores, score_dev
from sts_lightning.evaluation.encoding import ShardedEncoder
from sts_lightning.evaluation.ranks import RankResult, rank_tasks
from sts_lightning.evaluation.sts import STSResult, encode_tables, score_tasks, table_cosines
from sts_lightning.models.encoder import SentenceEncoder

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Scores:
    """Scores of an encoder on the dev pairs and, if asked for, on the test tasks."""

    dev: DevScores
    dev_cosines: np.ndarray
    test: STSResult | None
    test_cosines: list[np.ndarray]
    ranks: RankResult | None = None
    binary: BinaryScores | None = None

    def dev_entry(self) -> dict[str, Any]:
        """Return the entry of the dev pairs in the results of a run."""
        return {**self.dev} if self.binary is None else {**self.dev, "binary": self.binary}


def how_scored(encoder: SentenceEncoder, data: DataModule, cfg: DictConfig) -> dict[str, Any]:
    """Return what the results of a run state of its seed, encoder and data."""
    return {
        "seed": cfg.seed,
        "precision": encoder.precision,
        "quantization": cfg.model.get("quantization", "none"),
        **encoder.evaluation_text,
        "senteval_text": data.text,
        "data": [asdict(count) | {"kept": count.kept} for count in data.counts],
    }


def score(encoder: SentenceEncoder, data: DataModule, evaluation: DictConfig) -> Scores:
    """Score dev pairs and test tasks, with all their sentences encoded in one go.

    Args:
        encoder: The encoder, which is left in the precision of the report; in every process, if several
            have been started.
        data: Dev pairs and test tasks.
        evaluation: The group ``evaluation``.
    """
    precision = evaluation.precision or encoder.precision
    if precision != encoder.precision:
        encoder.set_precision(precision)
    tasks = data.tests if evaluation.final else []
    tables = [data.dev, *(table for task in tasks for table in task.subsets.values())]
    vectors = encode_tables(ShardedEncoder(encoder), tables)
    dev_cosines, *cosines = table_cosines(vectors, tables)
    gold, dev = gold_of([data.dev]), score_dev(dev_cosines, data.dev)
    two = is_binary(gold)
    thresholds = best_thresholds(dev_cosines, gold) if two else None
    test = score_tasks(tasks, cosines, evaluation.aggregate, thresholds) if tasks else None
    ranks = rank_tasks(tasks, vectors) if tasks and evaluation.rank else None
    binary = score_binary(dev_cosines, gold) if two else None
    return Scores(dev, dev_cosines, test, cosines, ranks, binary)


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

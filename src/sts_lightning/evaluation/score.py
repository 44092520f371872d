"""The one place that scores an encoder: dev data and test tasks, and what is computed beside their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pkgutil import resolve_name
from typing import Any

import numpy as np
from omegaconf import DictConfig

from sts_lightning.core.choices import Aggregate, StoredAs, TextFound
from sts_lightning.data.module import DataModule
from sts_lightning.data.ranking import Ranking
from sts_lightning.data.readers.sts_sets import tables_of
from sts_lightning.data.table import gold_of
from sts_lightning.data.tasks import Dev, Task, rankings_of, scored_tasks
from sts_lightning.evaluation.dev_scores import ranking_entry
from sts_lightning.evaluation.encoding import Embedded, Encoder, ShardedEncoder
from sts_lightning.evaluation.pair_classification import best_thresholds, is_binary, score_binary
from sts_lightning.evaluation.quantized import score_quantized
from sts_lightning.evaluation.retrieval import encode_ranking
from sts_lightning.evaluation.statistics import correlate
from sts_lightning.evaluation.sts import TestResult, encode_tables, score_tasks, table_cosines
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.runs.metrics import main_score
from sts_lightning.runs.predictions import OfTask, found_on

RANK_TASKS = "sts_lightning.papers.vector_ranks:rank_tasks"
"""Function that computes the ranks of the vectors of tasks, which few runs ask for."""


@dataclass(frozen=True)
class Scores:
    """Scores of an encoder on dev data and test tasks, each empty where there are none.

    Attributes:
        dev: Entry of the dev data in the results of a run.
        dev_found: Cosines and gold scores of the dev pairs, or scores of the dev queries.
        test: Entry of the test tasks, with those of shortened and quantized vectors under ``deployed``.
        test_found: What was found on each test task, as of the dev data.
        ranks: Ranks of the vectors of the test tasks.
    """

    dev: Mapping[str, Any]
    dev_found: OfTask
    test: TestResult | None
    test_found: Mapping[str, OfTask]
    ranks: Mapping[str, Any] | None = None

    @property
    def dev_score(self) -> float:
        """The dev score that selects weights, times 100."""
        return main_score(self.dev)


def how_scored(encoder: SentenceEncoder, data: DataModule, cfg: DictConfig, scores: Scores) -> dict[str, Any]:
    """Return what the results of a run state of its seed, encoder and data, and the ranks of its vectors."""
    return {
        "seed": cfg.seed,
        "precision": encoder.precision,
        "quantization": cfg.model.get("quantization", "none"),
        **encoder.evaluation_text,
        "senteval_text": data.text,
        "data": [asdict(count) | {"kept": count.kept} for count in data.counts],
        "content": data.content,
        **({} if scores.ranks is None else {"rank": scores.ranks}),
    }


def title_of_table(encoder: SentenceEncoder, text: TextFound | None, what: str, *how: str) -> str:
    """Return the title of a table of scores.

    Args:
        encoder: The encoder that was scored.
        text: Text of the sentences, see `how_scored`.
        what: What the scores are.
        *how: How they were computed.
    """
    read = () if text is None else (f"senteval_text={text}",)
    settings = (*how, encoder.precision, f"text_edit={encoder.config.text_edit}", *read)
    return f"{what} ({', '.join(settings)})"


def score_encoder(
    encoder: Encoder,
    tasks: Sequence[Task],
    aggregate: Aggregate = "all",
    *,
    dev: Dev | None = None,
    rank: bool = False,
    dims: Sequence[int] = (),
    types: Sequence[StoredAs] = ("float32",),
) -> Scores:
    """Score an encoder; the sentences of all scored pairs are encoded in one go, each distinct one once.

    The report of a training and `eval.py` score here. What they compute beside the scores is an argument.

    Args:
        encoder: The encoder, which takes a role, ``prompt``, where texts are ranked.
        tasks: Test tasks.
        aggregate: How the subsets of a task become one score.
        dev: Dev data. The thresholds of tasks with two labels are chosen on them, if they have two too.
        rank: Whether to compute the rank of the matrix of each task's vectors.
        dims: Numbers of first values of a vector that are scored too, see `score_quantized`.
        types: Types of values that are scored too.
    """
    scored = scored_tasks(tasks)
    pairs = [] if dev is None or isinstance(dev, Ranking) else [dev]
    tables = [*pairs, *tables_of(scored)]
    vectors = encode_tables(encoder, tables) if tables else Embedded(np.empty((0, 0)), {})
    cosines = table_cosines(vectors, tables)
    thresholds = None
    dev_entry: dict[str, Any] = {}
    dev_found: OfTask = {}
    encode: Any = encoder.encode  # of a role where texts are ranked
    if isinstance(dev, Ranking):
        dev_found = encode_ranking(encode, dev)
        dev_entry = ranking_entry(dev_found, dev)
    elif dev is not None:
        dev_found = cosines.pop(0), gold_of([dev])
        dev_entry = {**correlate(*dev_found)}
        if is_binary(dev_found[1]):
            thresholds = best_thresholds(*dev_found)
            dev_entry["binary"] = score_binary(*dev_found)
    values = {task.name: encode_ranking(encode, task) for task in rankings_of(tasks)}
    test = score_tasks(tasks, cosines, aggregate, thresholds, values) if tasks else None
    if test and (quantized := score_quantized(vectors, scored, aggregate, dims, types)):
        test["deployed"] = quantized  # the key of 0.3
    ranks = resolve_name(RANK_TASKS)(scored, vectors) if scored and rank else None
    return Scores(dev_entry, dev_found, test, found_on(tasks, cosines, values), ranks)


def score_data(encoder: SentenceEncoder, data: DataModule, evaluation: DictConfig) -> Scores:
    """Score the dev data of a run and, if asked for, its test tasks.

    Args:
        encoder: The encoder, which is left in the precision of the report; in every process, if several
            have been started.
        data: Dev data and test tasks.
        evaluation: The group ``evaluation``.
    """
    precision = evaluation.precision or encoder.precision
    if precision != encoder.precision:
        encoder.set_precision(precision)
    tasks = data.tests if evaluation.final else []
    return score_encoder(
        ShardedEncoder(encoder), tasks, evaluation.aggregate, dev=data.dev, rank=evaluation.rank
    )

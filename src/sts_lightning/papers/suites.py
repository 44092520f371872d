"""Suites of papers: SentEval's transfer and probing tasks, and ranks of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from sts_lightning.core.choices import SentEvalText
from sts_lightning.core.errors import ConfigError
from sts_lightning.data.fetch import PROBING_TASKS
from sts_lightning.data.readers.sts_sets import SEVEN_TASKS, load_sts_tasks, tables_of, text_found
from sts_lightning.evaluation.encoding import Encoder
from sts_lightning.evaluation.sts import encode_tables
from sts_lightning.evaluation.suites import Scored, Suite, row_of
from sts_lightning.papers.classification import (
    TRANSFER_TASKS,
    ClassificationTask,
    load_probing_tasks,
    load_transfer_tasks,
)
from sts_lightning.papers.transfer import evaluate_transfer
from sts_lightning.papers.vector_ranks import rank_tasks


def open_transfer(cfg: DictConfig, names: Sequence[str], text: SentEvalText) -> Suite:
    """Read SentEval's transfer tasks."""
    return _classification(
        cfg, load_transfer_tasks(cfg.data_root, names or TRANSFER_TASKS), f"{cfg.folds} folds"
    )


def open_probing(cfg: DictConfig, names: Sequence[str], text: SentEvalText) -> Suite:
    """Read SentEval's probing tasks."""
    return _classification(cfg, load_probing_tasks(cfg.data_root, names or tuple(PROBING_TASKS)))


def _classification(cfg: DictConfig, tasks: Sequence[ClassificationTask], *how: str) -> Suite:
    if cfg.folds < 2:  # scikit-learn says so too, but not before all sentences are encoded
        raise ConfigError(f"folds must be at least 2, got {cfg.folds}.", key="folds")
    settings = {"folds": cfg.folds, "classifier": cfg.classifier}

    def score(encoder: Encoder, folder: Path) -> Scored:
        result = evaluate_transfer(encoder, tasks, cfg.folds, cfg.classifier)
        return {**result, **settings}, row_of(result["average"], result["tasks"])

    title = ("Accuracy x 100", "logistic regression", f"classifier={cfg.classifier}", *how)
    return Suite(score, title=title)


def open_ranks(cfg: DictConfig, names: tuple[str, ...], text: SentEvalText) -> Suite:
    """Read scored pairs, of whose vectors the ranks are reported."""
    tasks = load_sts_tasks(cfg.data_root, names or SEVEN_TASKS, text)
    tables = tables_of(tasks)

    def score(encoder: Encoder, folder: Path) -> Scored:
        result = rank_tasks(tasks, encode_tables(encoder, tables))
        return {**result}, row_of(result["average"], {**result["tasks"]})

    title = ("Energy rank of the test sentences' vectors", "99 % of the squared singular values")
    return Suite(score, text_found(tables), title=title)

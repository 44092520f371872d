"""Suites of tasks that `eval.py` scores a model on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig

from sts_lightning.core.choices import Classifier, SentEvalText, TextFound
from sts_lightning.core.errors import ConfigError, at_setting
from sts_lightning.data.files import load_test_files
from sts_lightning.data.readers.row_values import check_score_range
from sts_lightning.data.readers.sts_sets import SEVEN_TASKS, STSTask, load_sts_tasks, tables_of, text_found
from sts_lightning.data.table import Table
from sts_lightning.data.tasks import Task, hashes_of, rankings_of, scored_tasks
from sts_lightning.evaluation.deployed import score_deployed
from sts_lightning.evaluation.encoding import Encoder
from sts_lightning.evaluation.mteb import MTEBScore, evaluate_mteb, find_mteb_tasks
from sts_lightning.evaluation.retrieval import encode_ranking
from sts_lightning.evaluation.statistics import require_finite
from sts_lightning.evaluation.sts import (
    describe_binary,
    encode_tables,
    score_tasks,
    score_test,
    spearman_row,
    table_cosines,
)
from sts_lightning.papers.classification import (
    PROBING_TASKS,
    TRANSFER_TASKS,
    ClassificationTask,
    load_probing_tasks,
    load_transfer_tasks,
)
from sts_lightning.papers.transfer import evaluate_transfer
from sts_lightning.papers.vector_ranks import rank_tasks
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.predictions import found_on, save_predictions

log = logging.getLogger(__name__)

Scored = tuple[dict[str, Any], dict[str, float]]
"""Result of a suite for the metrics of the run, and its row for the terminal."""

Score = Callable[[Encoder, Path], Scored]
"""Scores an encoder; further files go into the folder, which it makes."""


@dataclass(frozen=True)
class Suite:
    """Tasks whose data have been read.

    Attributes:
        score: Scores an encoder on them.
        text: Text of the sentences of STS12-16, STS-B and SICK, if the suite has some of these.
        tables: Texts of the suite ``sts``.
        hashes: Hashes of the pairs of each of its tasks.
        title: What its scores are, and how they were computed, for `title_of_table`.
    """

    score: Score
    text: TextFound | None = None
    tables: Sequence[Table] = ()
    hashes: Mapping[str, str] = field(default_factory=dict)
    title: Sequence[str] = ("Score",)


class UnitVectors:
    """An encoder whose vectors are scaled to length 1, as in some models' pipelines.

    Cosines stay the same; the results of a regression or a clustering do not.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    def encode(self, sentences: Sequence[str], /, prompt: str | None = None) -> np.ndarray:
        """Vectors (N, D); a zero vector stays as it is."""
        encode: Any = self.encoder.encode  # of a role only where texts are ranked
        found = encode(sentences) if prompt is None else encode(sentences, prompt=prompt)
        vectors = require_finite(np.asarray(found, dtype=np.float32))
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: np.ndarray = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
        return unit


def open_suite(cfg: DictConfig, text: SentEvalText = "raw") -> Suite:
    """Read the tasks of a suite, before any weight is loaded.

    Args:
        cfg: Configuration of the schema `EvalConfig`.
        text: Text of STS12-16, STS-B and SICK.

    Raises:
        UserError: A task is unknown, its data cannot be read, or a package is missing.
    """
    names = tuple(dict.fromkeys(cfg.tasks or ()))  # each once, or it would count twice in the average
    files = _test_files(cfg)
    for key, usual in (("dims", []), ("vectors", ["float32"])):
        if cfg.suite != "sts" and cfg[key] != usual:
            raise ConfigError(f"{key}: only suite=sts scores vectors of other sizes and types.", key=key)
    if cfg.rank and cfg.suite != "sts":
        raise ConfigError("rank: only suite=sts has ranks beside its scores.", key="rank")
    with at_setting("data_root"):
        if cfg.suite == "sts":
            return _sts(cfg, names or (() if files else SEVEN_TASKS), files, text)
        if cfg.suite == "rank":
            return _ranks(load_sts_tasks(cfg.data_root, names or SEVEN_TASKS, text))
        if cfg.suite == "transfer":
            tasks = load_transfer_tasks(cfg.data_root, names or TRANSFER_TASKS)
            return _classification(tasks, cfg.folds, cfg.classifier, f"{cfg.folds} folds")
        if cfg.suite == "probing":
            tasks = load_probing_tasks(cfg.data_root, names or tuple(PROBING_TASKS))
            return _classification(tasks, cfg.folds, cfg.classifier)
    if not names:
        needs = "suite=mteb needs tasks=[...], names of MTEB's tasks such as Banking77Classification."
        raise ConfigError(needs, key="tasks")
    return _mteb(names)


def _test_files(cfg: DictConfig) -> tuple[str, ...]:
    """Return the paths of the user's test files."""
    if cfg.test is None:
        return ()
    if cfg.suite != "sts":
        raise ConfigError("test: only suite=sts scores your own files.", key="test")
    return (cfg.test,) if isinstance(cfg.test, str) else tuple(cfg.test)


def _sts(cfg: DictConfig, names: Sequence[str], files: Sequence[str], text: SentEvalText) -> Suite:
    tasks: list[Task] = []
    if files:
        try:
            check_score_range(cfg.score_range)
        except ValueError as error:
            raise ConfigError(str(error), key="score_range") from error
        columns = (cfg.sentence1, cfg.sentence2, cfg.score)
        with at_setting("test"):
            tasks += load_test_files(files, columns, cfg.score_range)
    if names:
        tasks += load_sts_tasks(cfg.data_root, tuple(names), text)
    shared = sorted({task.name for task in tasks[: len(files)]} & set(names))
    if shared:
        raise ConfigError(
            f"{', '.join(shared)} would be the name of one of your test files and of a task.",
            key="test",
            hint="Rename the file, or leave the task out.",
        )
    scored, rankings = scored_tasks(tasks), rankings_of(tasks)
    tables = tables_of(scored)
    if scored and rankings:
        raise ConfigError(
            f"{rankings[0].name} has queries to rank for, and {scored[0].name} scored pairs; these have no "
            "common scale.",
            key="test",
            hint="Evaluate them in two commands, or name the columns: sentence1=, sentence2=, score=.",
        )
    for key in ("rank", "dims", "vectors") if rankings else ():
        if cfg[key] not in (False, [], ["float32"]):
            raise ConfigError(f"{key}: only scored pairs have such scores.", key=key)

    def score(encoder: Encoder, folder: Path) -> Scored:
        folder.mkdir(parents=True, exist_ok=True)
        if rankings:
            encode: Any = encoder.encode
            values = {task.name: encode_ranking(encode, task) for task in rankings}
            save_predictions(RunFolder(folder), tasks, values)
            return {**score_test(tasks, [], values, cfg.aggregate)}, {}
        vectors = encode_tables(encoder, tables)
        cosines = table_cosines(vectors, tables)
        result = score_tasks(scored, cosines, cfg.aggregate)
        save_predictions(RunFolder(folder), tasks, found_on(tasks, cosines))
        for line in describe_binary(result["tasks"]):
            log.info("%s", line)
        deployed = score_deployed(vectors, scored, cfg.aggregate, cfg.dims, cfg.vectors)
        ranks = {"rank": rank_tasks(scored, vectors)} if cfg.rank else {}
        return {**result} | ({"deployed": deployed} if deployed else {}) | ranks, spearman_row(result)

    texts = [*tables, *(Table({"sentence1": texts}) for task in rankings for _, texts in task.texts())]
    title = ("Spearman x 100", f"aggregate={cfg.aggregate}")
    return Suite(score, text_found(tables), texts, hashes_of(tasks), title)


def _ranks(tasks: Sequence[STSTask]) -> Suite:
    tables = [table for task in tasks for table in task.subsets.values()]

    def score(encoder: Encoder, folder: Path) -> Scored:
        result = rank_tasks(tasks, encode_tables(encoder, tables))
        return {**result}, _row(result["average"], {**result["tasks"]})

    title = ("Energy rank of the test sentences' vectors", "99 % of the squared singular values")
    return Suite(score, text_found(tables), title=title)


def _classification(
    tasks: Sequence[ClassificationTask], folds: int, classifier: Classifier, *how: str
) -> Suite:
    if folds < 2:  # scikit-learn says so too, but not before all sentences are encoded
        raise ConfigError(f"folds must be at least 2, got {folds}.", key="folds")

    def score(encoder: Encoder, folder: Path) -> Scored:
        result = evaluate_transfer(encoder, tasks, folds, classifier)
        settings = {"folds": folds, "classifier": classifier}
        return {**result, **settings}, _row(result["average"], result["tasks"])

    title = ("Accuracy x 100", "logistic regression", f"classifier={classifier}", *how)
    return Suite(score, title=title)


def _mteb(names: Sequence[str]) -> Suite:
    tasks = find_mteb_tasks(names)

    def score(encoder: Encoder, folder: Path) -> Scored:
        result = evaluate_mteb(encoder, tasks, folder / "mteb")
        labelled = {_label(name, task): task for name, task in result["tasks"].items()}
        return {**result}, _row(result["average"], labelled)

    return Suite(score, title=("MTEB's main scores x 100",))


def _label(name: str, task: MTEBScore) -> str:
    """Return a task's name, with its subsets and splits unless they are MTEB's usual ones."""
    subsets = list(dict.fromkeys(subset for scores in task["splits"].values() for subset in scores))
    unusual = [names for names in (subsets, list(task["splits"])) if names not in (["default"], ["test"])]
    return f"{name} ({'; '.join(map(', '.join, unusual))})" if unusual else name


def _row(average: float, tasks: dict[str, Any]) -> dict[str, float]:
    row = {name: task["score"] for name, task in tasks.items()}
    return {**row, "average": average} if len(row) > 1 else row

"""Suites of tasks that `eval.py` scores a model on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
from omegaconf import DictConfig

from sts_lightning.core.choices import SentEvalText, TextFound
from sts_lightning.core.errors import ConfigError, at_setting
from sts_lightning.data.files import load_test_files
from sts_lightning.data.readers.row_values import check_score_range
from sts_lightning.data.readers.sts_sets import SEVEN_TASKS, load_sts_tasks, tables_of, text_found
from sts_lightning.data.table import Table
from sts_lightning.data.tasks import Task, hashes_of, rankings_of, scored_tasks
from sts_lightning.evaluation.encoding import Encoder
from sts_lightning.evaluation.mteb import MTEBScore, evaluate_mteb, find_mteb_tasks
from sts_lightning.evaluation.score import score_encoder
from sts_lightning.evaluation.statistics import require_finite, unit_rows
from sts_lightning.evaluation.sts import describe_binary, spearman_row
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.predictions import save_predictions

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
        return unit_rows(vectors)


SUITES = {
    "sts": "sts_lightning.evaluation.suites:open_sts",
    "mteb": "sts_lightning.evaluation.suites:open_mteb",
    "transfer": "sts_lightning.papers.suites:open_transfer",
    "probing": "sts_lightning.papers.suites:open_probing",
    "rank": "sts_lightning.papers.suites:open_ranks",
}
"""Function that reads the tasks of each suite."""

OF_STS = ("test", "dims", "vectors", "rank")
"""Settings that ``suite=sts`` alone reads."""

WITHOUT_EFFECT: tuple[Any, ...] = (None, False, [], ["float32"])


def open_suite(cfg: DictConfig, text: SentEvalText = "raw") -> Suite:
    """Read the tasks of a suite, before any weight is loaded.

    Args:
        cfg: Configuration of the schema `EvalConfig`.
        text: Text of STS12-16, STS-B and SICK.

    Raises:
        UserError: A task is unknown, its data cannot be read, or a package is missing.
    """
    for key in OF_STS if cfg.suite != "sts" else ():
        if cfg[key] not in WITHOUT_EFFECT:
            raise ConfigError(f"{key}: only suite=sts has such scores.", key=key)
    names = tuple(dict.fromkeys(cfg.tasks or ()))  # each once, or it would count twice in the average
    open_tasks: Callable[[DictConfig, tuple[str, ...], SentEvalText], Suite] = resolve_name(SUITES[cfg.suite])
    with at_setting("data_root"):
        return open_tasks(cfg, names, text)


def open_sts(cfg: DictConfig, names: tuple[str, ...], text: SentEvalText) -> Suite:
    """Read tasks of scored pairs or of queries: the user's files and named ones, else the seven."""
    given = cfg.test or ()
    files = (given,) if isinstance(given, str) else tuple(given)
    names = names or (() if files else SEVEN_TASKS)
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
        tasks += load_sts_tasks(cfg.data_root, names, text)
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
        if cfg[key] not in WITHOUT_EFFECT:
            raise ConfigError(f"{key}: only scored pairs have such scores.", key=key)

    def score(encoder: Encoder, folder: Path) -> Scored:
        found = score_encoder(encoder, tasks, cfg.aggregate, rank=cfg.rank, dims=cfg.dims, types=cfg.vectors)
        assert found.test is not None
        folder.mkdir(parents=True, exist_ok=True)
        save_predictions(RunFolder(folder), tasks, found.test_found)
        for line in describe_binary(found.test["tasks"]):
            log.info("%s", line)
        ranks = {} if found.ranks is None else {"rank": found.ranks}
        return {**found.test, **ranks}, spearman_row(found.test)

    texts = [*tables, *(Table({"sentence1": texts}) for task in rankings for _, texts in task.texts())]
    title = ("Spearman x 100", f"aggregate={cfg.aggregate}")
    return Suite(score, text_found(tables), texts, hashes_of(tasks), title)


def open_mteb(cfg: DictConfig, names: Sequence[str], text: SentEvalText) -> Suite:
    """Find tasks of MTEB by their names."""
    if not names:
        needs = "suite=mteb needs tasks=[...], names of MTEB's tasks such as Banking77Classification."
        raise ConfigError(needs, key="tasks")
    tasks = find_mteb_tasks(names)

    def score(encoder: Encoder, folder: Path) -> Scored:
        result = evaluate_mteb(encoder, tasks, folder / "mteb")
        labelled = {_label(name, task): task for name, task in result["tasks"].items()}
        return {**result}, row_of(result["average"], labelled)

    return Suite(score, title=("MTEB's main scores x 100",))


def _label(name: str, task: MTEBScore) -> str:
    """Return a task's name, with its subsets and splits unless they are MTEB's usual ones."""
    subsets = list(dict.fromkeys(subset for scores in task["splits"].values() for subset in scores))
    unusual = [names for names in (subsets, list(task["splits"])) if names not in (["default"], ["test"])]
    return f"{name} ({'; '.join(map(', '.join, unusual))})" if unusual else name


def row_of(average: float, tasks: dict[str, Any]) -> dict[str, float]:
    """Return the score of each task for the terminal, and of several their average."""
    row = {name: task["score"] for name, task in tasks.items()}
    return {**row, "average": average} if len(row) > 1 else row

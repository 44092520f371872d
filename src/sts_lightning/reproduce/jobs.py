"""The runs of a table: planned, carried out, resumed."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from sts_lightning import runs
from sts_lightning.errors import CheckpointError, ConfigError
from sts_lightning.evaluation.seeds import read_scores
from sts_lightning.files import write_atomic
from sts_lightning.reproduce.spec import RowSpec, TableSpec

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """One run of train.py or eval.py.

    Attributes:
        folder: Its run folder.
        script: ``train.py`` or ``eval.py``.
        overrides: What it is told besides its folder.
    """

    folder: Path
    script: str
    overrides: tuple[str, ...]

    @property
    def done(self) -> bool:
        """Whether it has finished."""
        return runs.metrics_path(self.folder).is_file()


class Table:
    """The runs of a spec below one folder.

    Args:
        spec: The table.
        folder: Where its runs go.
    """

    def __init__(self, spec: TableSpec, folder: Path) -> None:
        self.spec = spec
        self.folder = folder

    def preparations(self) -> list[Job]:
        """The runs that others start from."""
        return [
            Job(self._prepared(name), "train.py", (*self.spec.overrides, *overrides))
            for name, overrides in self.spec.before.items()
        ]

    def searches(self) -> list[Job]:
        """The runs by which each row chooses among the candidates."""
        jobs = []
        for name, row in self.spec.rows.items():
            if self._searches(row):
                jobs += [job for _, job in self._candidates(name, row)]
        return jobs

    def seeds(self, name: str) -> list[Job]:
        """The runs of a row that the table reports; its search must have finished.

        Raises:
            CheckpointError: It has not.
        """
        row = self.spec.rows[name]
        if not row.trains:
            return [Job(self.folder / name, "eval.py", tuple(row.overrides))]
        chosen = self.chosen(name)
        choice = () if chosen is None else self.spec.search.candidates[chosen]
        return [
            Job(self.folder / name / f"seed{seed}", "train.py", (*self._base(row), *choice, f"seed={seed}"))
            for seed in self.spec.seeds
        ]

    def chosen(self, name: str) -> str | None:
        """The candidate with the best dev score in the row's search, or in that of the row it follows.

        None where nothing is searched.

        Raises:
            CheckpointError: One of these runs has not finished.
        """
        row = self.spec.rows[name]
        if row.choice_of is not None:
            return self.chosen(row.choice_of)
        scores = self.search_scores(name) if self._searches(row) else {}
        return max(scores, key=lambda candidate: scores[candidate]) if scores else None

    def search_scores(self, name: str) -> dict[str, float]:
        """Dev Spearman of each candidate that was tried for a row."""
        return {
            candidate: read_scores(job.folder)["dev"]
            for candidate, job in self._candidates(name, self.spec.rows[name])
        }

    def _searches(self, row: RowSpec) -> bool:
        return row.trains and row.search and row.choice_of is None

    def _candidates(self, name: str, row: RowSpec) -> list[tuple[str, Job]]:
        search = self.spec.search
        return [
            (
                candidate,
                Job(
                    self.folder / name / "search" / candidate,
                    "train.py",
                    (*self._base(row), *search.overrides, *overrides),
                ),
            )
            for candidate, overrides in search.candidates.items()
        ]

    def _base(self, row: RowSpec) -> tuple[str, ...]:
        start = () if row.after is None else (f"init_from={self._prepared(row.after)}",)
        return (*self.spec.overrides, *row.overrides, *start)

    def _prepared(self, name: str) -> Path:
        return self.folder / "before" / name


def carry_out(jobs: Sequence[Job], parallel: int) -> list[Job]:
    """Run what has not finished yet, several at a time, each with its share of the cores.

    A finished run is left alone; one that was cut goes on from its last checkpoint.

    Args:
        jobs: The runs.
        parallel: How many at a time.

    Returns:
        The runs that failed.

    Raises:
        ConfigError: A folder holds a run of other settings.
    """
    for job in jobs:
        _check_settings(job)
    open_jobs = [job for job in jobs if not job.done]
    threads = max(1, (os.cpu_count() or 1) // parallel)
    with ThreadPoolExecutor(parallel) as pool:
        results = pool.map(lambda job: _carry_out(job, threads), open_jobs)
        return [job for job, code in zip(open_jobs, results, strict=True) if code != 0]


def _carry_out(job: Job, threads: int) -> int:
    job.folder.mkdir(parents=True, exist_ok=True)
    write_atomic(_settings_path(job), json.dumps([job.script, *job.overrides], indent=2) + "\n")
    if runs.last_checkpoint(job.folder).is_file():
        arguments = [f"resume={job.folder}"]
    else:
        # Whatever a run left that was cut before its first checkpoint is of no use to another.
        for entry in job.folder.iterdir():
            if entry != _settings_path(job):
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        arguments = [*job.overrides, f"hydra.run.dir={job.folder}"]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    log.info("starts: %s", job.folder)
    with (job.folder / "output.log").open("w", encoding="utf-8") as output:
        done = subprocess.run(
            [sys.executable, job.script, *arguments],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode == 0:
        log.info("done: %s", job.folder)
    else:
        log.error("failed (%d): see %s", done.returncode, job.folder / "output.log")
    return done.returncode


def _settings_path(job: Job) -> Path:
    return job.folder / "command.json"


def _check_settings(job: Job) -> None:
    path = _settings_path(job)
    if not job.folder.exists():
        return
    try:
        earlier = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{job.folder} is there, but has no readable {path.name}; remove it."
        ) from error
    if earlier != [job.script, *job.overrides]:
        raise ConfigError(
            f"{job.folder} holds a run of other settings ({' '.join(earlier)}); remove or rename it."
        )

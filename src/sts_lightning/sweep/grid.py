"""The jobs of a sweep, composed: each once, with the runs that they start from."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra import compose
from hydra.core.utils import filter_overrides
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.check import check_config
from sts_lightning.config.compose import explain, job_config, without_hydra
from sts_lightning.config.identity import FREE, defining, leaves, select
from sts_lightning.config.start import Compose, EarlierRun, earlier_runs
from sts_lightning.core.errors import ConfigError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.sweep.gpu_pool import demand_of
from sts_lightning.sweep.job import Job, job_folder

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ComposedJob:
    """A job, and what it trains.

    Attributes:
        job: The job.
        composed: Its composed configuration, including the ``hydra`` node.
        cfg: The same without that node.
    """

    job: Job
    composed: DictConfig
    cfg: DictConfig


class Grid:
    """Jobs of a sweep by folder; equal configurations are one job.

    Args:
        compose_job: Function that composes the configuration of a job, including the ``hydra`` node, from its
            overrides and its number.
    """

    def __init__(self, compose_job: Callable[[list[str], int], DictConfig]) -> None:
        self.compose_job = compose_job
        self.jobs: dict[Path, ComposedJob] = {}

        @functools.cache  # jobs start from the same runs, and composing one takes a third of a second
        def with_hydra(overrides: tuple[str, ...]) -> DictConfig:
            return compose("train", list(overrides), return_hydra_config=True)

        self._whole: Compose = lambda overrides: with_hydra(tuple(overrides))

    def add(self, number: int, overrides: Sequence[str]) -> Job:
        """Compose a job.

        Returns:
            The job; that of an earlier call if the configuration is the same.

        Raises:
            ConfigError: The configuration is wrong; the message names the job.
        """
        typed = tuple(text for text in filter_overrides(overrides) if not text.startswith("plan="))
        with named(typed):
            composed = self.compose_job(list(overrides), number)
            earlier = earlier_runs(composed, typed, Path(composed.hydra.sweep.dir), self._whole)
            folder = job_folder(composed)
            if folder in self.jobs:
                _check_equal(self.jobs[folder].composed, composed)
                self.jobs[folder].job.first = False
                return self.jobs[folder].job
            job = Job(number, typed, folder, demand_of(composed))
            cfg = without_hydra(composed)
            if earlier:
                check_config(cfg)  # they would train for hours before the mistake is found
            _warn_of_missing(job.run_folder, composed)
            if not job.run_folder.finished:
                job.needs = self._needs(job, earlier)
            self.jobs[folder] = ComposedJob(job, composed, cfg)
        return job

    def _needs(self, job: Job, earlier: Sequence[EarlierRun]) -> tuple[Path, ...]:
        """Return the folders of the runs that a job starts from.

        A job of its own trains each, so that no other one waits for it on a GPU.
        """
        needs: tuple[Path, ...] = ()
        for run in earlier:
            if run.folder not in self.jobs:
                first = Job(
                    job.number, run.overrides, run.folder, demand_of(run.cfg), needs=needs, first=True
                )
                self.jobs[run.folder] = ComposedJob(first, run.composed, run.cfg)
            needs = (*needs, run.folder)
        return needs

    def composed_jobs(self) -> list[ComposedJob]:
        """Return all jobs, each after those that it needs."""
        return sorted(self.jobs.values(), key=lambda one: len(one.job.needs))

    def to_run(self) -> list[Job]:
        """Return the jobs that are to be started: all but finished ones that the user did not ask for."""
        jobs = [composed.job for composed in self.composed_jobs()]
        return [job for job in jobs if not (job.first and job.run_folder.finished)]


def _check_equal(first: DictConfig, second: DictConfig) -> None:
    """Reject jobs of one folder that differ in a setting outside its identity: the second would not run."""
    one, other = (select(leaves(_resolved(cfg)), FREE) for cfg in (first, second))
    for key in sorted(one.keys() | other.keys()):
        if one.get(key) != other.get(key):
            raise ConfigError(
                f"{key} has two values in the sweep, {one.get(key)} and {other.get(key)}, but both would be "
                "one run; give it one value.",
                key=key,
            )


def _resolved(composed: DictConfig) -> dict[str, Any]:
    with job_config(composed):
        return defining(composed)


def _warn_of_missing(run: RunFolder, composed: DictConfig) -> None:
    """Say what a finished run has not recorded, since the setting that asks for it is new."""
    if not run.finished:
        return
    had = select(leaves(run.settings()), {"nothing"})
    for key, value in select(leaves(_resolved(composed)), {"nothing"}).items():
        recorded = key.startswith("trainer.") or key.endswith("._target_")
        if recorded and value and not had.get(key):
            setting = key.removesuffix("._target_")
            log.warning(
                "WARNING: %s has finished without %s; another name=... trains it again.", run.name, setting
            )


@contextmanager
def named(overrides: Sequence[str]) -> Iterator[None]:
    """Name the job in the errors of its configuration."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"job {' '.join(overrides)}: {error}", key=error.key) from error
    except (HydraException, OmegaConfBaseException) as error:
        cause = explain(error, "train", overrides)
        raise ConfigError(f"job {' '.join(overrides)}: {cause}", key=cause.key) from error

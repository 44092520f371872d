"""The jobs of a sweep or of a table, composed: each once, with the runs that they start from."""

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
from omegaconf import DictConfig

from sts_lightning.config.check import check_config
from sts_lightning.config.compose import FAULTS, explain, job_config, without_hydra
from sts_lightning.config.earlier_runs import earlier_runs
from sts_lightning.config.folders import Entry, script_of
from sts_lightning.config.identity import FREE, defining, leaves, select
from sts_lightning.core.errors import ConfigError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.sweep.gpu_pool import demand_of
from sts_lightning.sweep.job import Job, job_folder

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ComposedJob:
    """A job, and what it trains or evaluates.

    Attributes:
        job: The job.
        composed: Its composed configuration, including the ``hydra`` node.
    """

    job: Job
    composed: DictConfig

    @functools.cached_property
    def cfg(self) -> DictConfig:
        """The configuration without the ``hydra`` node."""
        return without_hydra(self.composed)


class Grid:
    """Jobs of a sweep or of a table by folder, each after those that it needs; equal ones are one job.

    A job needs the job in whose folder the run is that it starts from, or evaluates.

    Args:
        compose_job: Function that composes the configuration of a job, including the ``hydra`` node, from its
            overrides and its number.
    """

    def __init__(self, compose_job: Callable[[list[str], int], DictConfig]) -> None:
        self.compose_job = compose_job
        self.jobs: dict[Path, ComposedJob] = {}

        @functools.cache  # jobs have much in common, and composing takes a tenth of a second
        def whole(entry: Entry, overrides: tuple[str, ...]) -> DictConfig:
            return compose(entry, list(overrides), return_hydra_config=True)

        self.whole = whole

    def add(self, number: int, overrides: Sequence[str]) -> Job:
        """Compose a job.

        Returns:
            The job; that of an earlier call if the configuration is the same.

        Raises:
            ConfigError: The configuration is wrong; the message names the job.
        """
        typed = tuple(text for text in filter_overrides(overrides) if not text.startswith("plan="))
        with naming_job(typed):
            composed = self.compose_job(list(overrides), number)
            parent = Path(composed.hydra.sweep.dir)
            earlier = earlier_runs(composed, typed, parent, lambda texts: self.whole("train", tuple(texts)))
            folder = job_folder(composed)
            if folder in self.jobs:
                _check_equal(self.jobs[folder].composed, composed)
                self.jobs[folder].job.first = False
                return self.jobs[folder].job
            if earlier:
                check_config(without_hydra(composed))  # else they would train for hours before it is found
            left = () if RunFolder(folder).finished else earlier
            for first in left:  # a job each: no GPU waits for another
                if first.folder not in self.jobs:
                    self._put(number, first.overrides, first.folder, first.composed).first = True
            return self._put(number, typed, folder, composed)

    def _put(self, number: int, overrides: tuple[str, ...], folder: Path, composed: DictConfig) -> Job:
        job = Job(
            number, overrides, folder, demand_of(composed), str(script_of(composed.hydra.job.config_name))
        )
        start = Path(str(composed.get("init_from") or composed.get("ckpt")))
        if start in self.jobs and not job.run_folder.finished:
            job.needs = (*self.jobs[start].job.needs, start)
        self.jobs[folder] = ComposedJob(job, composed)
        return job

    def composed_jobs(self) -> list[ComposedJob]:
        """Return all jobs, those first that others start from."""
        return sorted(self.jobs.values(), key=lambda one: len(one.job.needs))

    def to_run(self) -> list[Job]:
        """Return the jobs that are to be started: all but finished ones that the user did not ask for."""
        return [
            job
            for job in (each.job for each in self.composed_jobs())
            if not (job.first and job.run_folder.finished)
        ]


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


@contextmanager
def naming_job(overrides: Sequence[str], what: str = "") -> Iterator[None]:
    """Name the job, or what else is composed, in the errors of its configuration."""
    try:
        yield
    except (ConfigError, *FAULTS) as error:
        cause = error if isinstance(error, ConfigError) else explain(error, "train", overrides)
        raise ConfigError(f"{what or ' '.join(('job', *overrides))}: {cause}", key=cause.key) from error

"""The jobs of a sweep, composed: each once, with the stages that they share."""

from __future__ import annotations

import copy
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
from omegaconf import DictConfig, open_dict
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.compose import Compose, compose_stages, explain, job_config
from sts_lightning.config.identity import FREE, defining, leaves, select
from sts_lightning.core.errors import ConfigError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.sweep.gpu_pool import demand_of, largest
from sts_lightning.sweep.job import Job, job_folder

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ComposedJob:
    """A job, and what it trains.

    Attributes:
        job: The job.
        composed: Its composed configuration, including the ``hydra`` node.
        configs: Configurations of the runs that it consists of, by stage; the name of a run without stages is
            empty.
    """

    job: Job
    composed: DictConfig
    configs: dict[str, DictConfig]


class Grid:
    """Jobs of a sweep by folder; equal configurations are one job.

    Args:
        compose_job: Function that composes the configuration of a job, including the ``hydra`` node, from its
            overrides and its number.
    """

    def __init__(self, compose_job: Callable[[list[str], int], DictConfig]) -> None:
        self.compose_job = compose_job
        self.jobs: dict[Path, ComposedJob] = {}
        self.stages: dict[Path, ComposedJob] = {}

        @functools.cache  # jobs have stages in common, and composing one takes a third of a second
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
            folder = job_folder(composed)
            if folder in self.jobs:
                _check_equal(self.jobs[folder].composed, composed)
                return self.jobs[folder].job
            job = Job(number, typed, folder)
            with job_config(composed):
                configs = self._configs(job, composed)
                _warn_of_missing(job.run_folder, composed)
            self.jobs[folder] = ComposedJob(job, composed, configs)
        return job

    def _configs(self, job: Job, composed: DictConfig) -> dict[str, DictConfig]:
        """Return the configurations that a job runs itself, by stage, and set its demand and its needs.

        A separate job trains each shared stage, so that no other job waits for it on a GPU. A job that has
        begun to train its stages itself keeps them.
        """
        if not composed.get("stages"):
            job.demand = demand_of(composed)
            return {"": _without_hydra(composed)}
        stages = compose_stages(composed, job.overrides, lambda texts: _without_hydra(self._whole(texts)))
        run = job.run_folder
        shared: dict[str, str] = {}
        folders = {name: run.shared_stage(folder).path for name, folder in shared.items()}
        if run.has_stages and run.state != "started":
            begun = {stage.path for stage in run.stages()}
            folders = {name: path for name, path in folders.items() if path in begun}
        unshared = {name: cfg for name, cfg in stages.items() if name not in folders}
        job.demand = largest(demand_of(cfg) for cfg in unshared.values())
        if not run.finished:
            for name, path in folders.items():
                self._need(job, composed, path, name, stages[name])
        return unshared

    def _need(self, job: Job, composed: DictConfig, path: Path, name: str, cfg: DictConfig) -> None:
        """Note that a job starts from a stage, after those that it needs already."""
        if path not in self.stages:
            added = (*job.added, "--stage", name)
            stage = Job(job.number, job.overrides, path, demand_of(cfg), needs=job.needs, stage=name)
            stage.added, stage.shown = added, job.overrides
            self.stages[path] = ComposedJob(stage, composed, {name: cfg})
        stage = self.stages[path].job
        stage.shown = tuple(text for text in stage.shown or () if text in job.overrides)
        job.needs = (*job.needs, path)

    def composed_jobs(self) -> list[ComposedJob]:
        """Return all jobs, shared stages first, each after those that it needs."""
        return [*self.stages.values(), *self.jobs.values()]

    def to_run(self) -> list[Job]:
        """Return the jobs that are to be started: all but shared stages that have finished."""
        jobs = [composed.job for composed in self.composed_jobs()]
        return [job for job in jobs if job.stage is None or not job.run_folder.finished]


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
    if run.has_stages or not run.finished:
        return
    had = select(leaves(run.settings()), {"nothing"})
    for key, value in select(leaves(_resolved(composed)), {"nothing"}).items():
        recorded = key.startswith("trainer.") or key.endswith("._target_")
        if recorded and value and not had.get(key):
            setting = key.removesuffix("._target_")
            log.warning(
                "WARNING: %s has finished without %s; another name=... trains it again.", run.name, setting
            )


def _without_hydra(composed: DictConfig) -> DictConfig:
    """Return a copy without the ``hydra`` node."""
    cfg = copy.deepcopy(composed)
    with open_dict(cfg):
        cfg.pop("hydra")
    return cfg


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

"""The jobs of a sweep, composed: each once, with the stages that they share."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hydra import compose
from hydra.core.utils import filter_overrides
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.compose import Compose, compose_stages, explain, job_config, share_stages
from sts_lightning.config.identity import VOLATILE
from sts_lightning.config.options import options
from sts_lightning.core.errors import ConfigError
from sts_lightning.sweep.gpu_pool import demand_of, largest
from sts_lightning.sweep.job import Job, job_folder, job_trust


@dataclass(frozen=True)
class Planned:
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
        self.jobs: dict[Path, Planned] = {}
        self.shared = SharedStages()
        self._owners: dict[Path, DictConfig] = {}

        @functools.cache
        def with_hydra(overrides: tuple[str, ...]) -> DictConfig:
            return compose("train", list(overrides), return_hydra_config=True)

        @functools.cache
        def stage(overrides: tuple[str, ...]) -> DictConfig:
            return _without_hydra(with_hydra(overrides))

        # Jobs have stages in common, and composing one takes a third of a second.
        self._whole: Compose = lambda overrides: with_hydra(tuple(overrides))
        self._stage: Compose = lambda overrides: stage(tuple(overrides))

    def add(self, number: int, overrides: Sequence[str]) -> Job:
        """Compose a job.

        Returns:
            The job; that of an earlier call if the configuration is the same.

        Raises:
            ConfigError: The configuration is wrong; the message names the job.
        """
        typed = tuple(filter_overrides(overrides))
        with named(typed):
            composed = self.compose_job(list(overrides), number)
            folder = job_folder(composed)
            if folder in self.jobs:
                self._check_equal(self.jobs[folder], composed)
                return self.jobs[folder].job
            job = Job(number, typed, folder, added=options().of_jobs())
            job.trust = job_trust(composed, overrides, self._whole)
            with job_config(composed):
                configs = self._configs(job, composed)
            self.jobs[folder] = Planned(job, composed, configs)
            for need in job.needs:
                self._owners.setdefault(need, composed)
        return job

    def _check_equal(self, planned: Planned, composed: DictConfig) -> None:
        """Reject a job that differs from one in a setting that is no part of a run's identity."""
        for key in VOLATILE:
            values = [OmegaConf.select(cfg, key) for cfg in (planned.composed, composed)]
            if key != "hydra" and values[0] != values[1]:
                raise ConfigError(
                    f"{key} has two values in the sweep, {values[0]} and {values[1]}, but does not affect "
                    "the result: both would be one run.",
                    key=key,
                    hint="Give it one value.",
                )

    def _configs(self, job: Job, composed: DictConfig) -> dict[str, DictConfig]:
        if not composed.get("stages"):
            job.demand = demand_of(composed)
            return {"": _without_hydra(composed)}
        stages = compose_stages(composed, job.overrides, self._stage)
        return self.shared.add(job, stages, options().share_stages is not False)

    def planned(self) -> list[Planned]:
        """Return all jobs, shared stages first."""
        stages = [
            Planned(job, self._owners[path], {str(job.stage): self.shared.configs[path]})
            for path, job in self.shared.jobs.items()
        ]
        return [*stages, *self.jobs.values()]

    def to_run(self) -> list[Job]:
        """Return the jobs that are to be started, shared stages that have not finished first."""
        stages = [job for job in self.shared.jobs.values() if not job.run_folder.finished]
        return [*stages, *(planned.job for planned in self.jobs.values())]


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


class SharedStages:
    """The shared stages of a sweep, each once.

    A job of its own trains each, so that no other job waits for it on a GPU. Each of these jobs comes after
    those that it needs.

    Attributes:
        jobs: Jobs of the stages, by folder.
        configs: Configurations of the stages, by folder.
    """

    def __init__(self) -> None:
        self.jobs: dict[Path, Job] = {}
        self.configs: dict[Path, DictConfig] = {}

    def add(self, job: Job, stages: Mapping[str, DictConfig], share: bool = True) -> dict[str, DictConfig]:
        """Plan the stages of a job; the job learns what it needs.

        A job that has begun with stages of its own keeps them.

        Args:
            job: Job of the sweep, updated in place.
            stages: Configurations of its stages by name, in order; see `share_stages`.
            share: Whether other jobs may share them.

        Returns:
            Configurations of the stages that the job runs itself.
        """
        shared = share_stages(stages) if share else {}
        run = job.run_folder
        folders = {name: run.shared_stage(folder).path for name, folder in shared.items()}
        if run.has_stages and run.state != "started":
            begun = {stage.path for stage in run.stages()}
            folders = {name: path for name, path in folders.items() if path in begun}
        unshared = {name: cfg for name, cfg in stages.items() if name not in folders}
        job.demand = largest(demand_of(cfg) for cfg in unshared.values())
        job.added = (*job.added, "--share-stages" if share else "--no-share-stages")
        if not run.finished:
            for name, path in folders.items():
                self._need(job, name, path, stages[name])
        return unshared

    def _need(self, job: Job, name: str, path: Path, cfg: DictConfig) -> None:
        stage = self.jobs.get(path)
        if stage is None:
            stage = Job(job.number, job.overrides, path, demand_of(cfg), job.script)
            stage.stage, stage.needs = name, job.needs
            stage.added = (*job.added, "--stage", name)
            stage.shown = job.overrides
            self.jobs[path], self.configs[path] = stage, cfg
        stage.shown = tuple(text for text in stage.shown or () if text in job.overrides)
        job.needs = (*job.needs, path)

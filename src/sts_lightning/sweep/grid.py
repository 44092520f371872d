"""The jobs of a sweep, composed: each once, with the stages that they share."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hydra import compose
from hydra.core.utils import filter_overrides
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.compose import explain, job_config
from sts_lightning.config.identity import VOLATILE
from sts_lightning.config.options import options
from sts_lightning.config.stages import Compose, compose_stages
from sts_lightning.errors import ConfigError
from sts_lightning.sweep.job import Job, job_folder, job_trust
from sts_lightning.sweep.resources import demand_of
from sts_lightning.sweep.shared_stages import SharedStages


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
        def without_hydra(overrides: tuple[str, ...]) -> DictConfig:
            return _own(with_hydra(overrides))

        # Jobs have stages in common, and composing one takes a third of a second.
        self._whole: Compose = lambda overrides: with_hydra(tuple(overrides))
        self._stage: Compose = lambda overrides: without_hydra(tuple(overrides))

    def add(self, number: int, overrides: Sequence[str]) -> Job:
        """Compose a job.

        Args:
            number: Index in the sweep.
            overrides: Command-line overrides.

        Returns:
            The job; that of an earlier call if the configuration is the same.

        Raises:
            ConfigError: The configuration is wrong; the message names the job.
        """
        own = tuple(filter_overrides(overrides))
        with named(own):
            composed = self.compose_job(list(overrides), number)
            folder = job_folder(composed)
            if folder in self.jobs:
                self._check_equal(self.jobs[folder], composed)
                return self.jobs[folder].job
            job = Job(number, own, folder, added=options().of_jobs())
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
            return {"": _own(composed)}
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


def _own(composed: DictConfig) -> DictConfig:
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

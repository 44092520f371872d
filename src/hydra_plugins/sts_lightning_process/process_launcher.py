"""`hydra/launcher=process`: each job of a sweep in a fresh process, with GPUs or cores of its own."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, JobStatus, configure_log, filter_overrides
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

log = logging.getLogger(__name__)


class ProcessLauncher(Launcher):
    """Runs each job as a command of its own, as if the user had typed it without ``-m``.

    A job's folder is named after its configuration, so a sweep that is started again leaves alone what has
    finished and goes on with what was cut.

    Args:
        jobs: At a time; null: one for each GPU, or for each two cores without.
        gpus_per_job: GPUs that a job sees; none are handed out where there are none.
        timeout_minutes: After which a job is stopped; null: never.
    """

    def __init__(self, jobs: int | None, gpus_per_job: int, timeout_minutes: float | None) -> None:
        self.jobs = jobs
        self.gpus_per_job = gpus_per_job
        self.timeout_minutes = timeout_minutes

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Hydra hands over what it has composed."""
        self.hydra_context = hydra_context
        self.config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> list[JobReturn]:
        """Run the jobs.

        Raises:
            UserError: Some failed, or the user stopped them.
        """
        from sts_lightning.sweep import Job, carry_out, job_folder, make_slots  # not needed before a sweep

        configure_log(self.config.hydra.job_logging, self.config.hydra.verbose)
        jobs: list[Job] = []
        for number, overrides in enumerate(job_overrides, start=initial_job_idx):
            composed = self._compose(list(overrides), number)
            jobs.append(Job(number, tuple(filter_overrides(overrides)), job_folder(composed)))
        accelerator = OmegaConf.select(self.config, "trainer.accelerator") or self.config.get("accelerator")
        slots = make_slots(self.jobs, self.gpus_per_job, accelerator)
        carry_out(jobs, slots, self.timeout_minutes)
        return [_returned(job.overrides, job.score) for job in jobs]

    def _compose(self, overrides: list[str], number: int) -> DictConfig:
        composed: Any = self.hydra_context.config_loader.load_sweep_config(self.config, overrides)
        with open_dict(composed):
            composed.hydra.job.id = composed.hydra.job.num = number
        assert isinstance(composed, DictConfig)
        return composed


def _returned(overrides: tuple[str, ...], score: float | None) -> JobReturn:
    result = JobReturn(overrides=overrides, status=JobStatus.COMPLETED)
    result.return_value = score
    return result


ConfigStore.instance().store(
    group="hydra/launcher",
    name="process",
    node={
        "_target_": f"{__name__}.{ProcessLauncher.__name__}",
        "jobs": None,
        "gpus_per_job": 1,
        "timeout_minutes": None,
    },
)

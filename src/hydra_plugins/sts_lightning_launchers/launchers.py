"""`hydra/launcher=process|slurm|ray`: each job of a sweep in a fresh process, with its own GPUs or cores.

And `hydra/sweeper=search`, Optuna's sweeper with this project's folder names.
"""

from __future__ import annotations

import contextlib
import logging
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus, configure_log
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict, read_write

from sts_lightning.config.options import options
from sts_lightning.core.errors import ConfigError, FailedJobsError, RunningElsewhereError

if TYPE_CHECKING:
    from sts_lightning.sweep.grid import Grid
    from sts_lightning.sweep.job import Job

log = logging.getLogger(__name__)


class JobLauncher(Launcher):
    """Base class of launchers that run each job as its own command, as if typed without ``-m``.

    The folder of a job is named after its configuration, so that re-running a sweep skips finished jobs and
    resumes interrupted ones.
    """

    gpus_per_job: int | None
    jobs_per_gpu: int = 1
    scratch: TemporaryDirectory[str]

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Store what Hydra has composed.

        The sweeper reads the folder of the sweep next, whose name may contain ``${hydra:...}``.
        """
        if options().plan is not None:  # the sweeper writes settings into the folder of the sweep next
            self.scratch = TemporaryDirectory()
            with read_write(config), open_dict(config):
                config.hydra.sweep.dir = self.scratch.name
        HydraConfig.instance().set_config(config)
        self.hydra_context = hydra_context
        self.config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> list[JobReturn]:
        """Run the jobs.

        An adaptive sweeper receives failures as results, and decides whether to continue.

        Raises:
            FailedJobsError: Some jobs of a grid failed.
            RunningElsewhereError: None failed, but some run elsewhere.
            UserError: The jobs cannot be run, or the user stopped the sweep.
        """
        from sts_lightning.sweep.grid import Grid  # not needed before a sweep

        direction = self.config.hydra.sweeper.get("direction")
        if getattr(direction, "name", direction) == "minimize":  # Optuna's sweeper by itself
            raise ConfigError(
                "hydra.sweeper.direction=minimize searches for the lowest dev Spearman; use "
                "hydra/sweeper=search, or hydra.sweeper.direction=maximize."
            )
        if options().resume is not None:
            raise ConfigError(
                "resume is for one run.",
                key="resume",
                hint="Repeat the command of a sweep to resume its runs, or resume each run by itself.",
            )
        configure_log(self.config.hydra.job_logging, self.config.hydra.verbose)
        adaptive = "BasicSweeper" not in self.config.hydra.sweeper._target_
        grid = Grid(self._compose)
        jobs = [
            grid.add(number, overrides) for number, overrides in enumerate(job_overrides, initial_job_idx)
        ]
        if options().plan is not None:
            if adaptive:
                raise ConfigError("--plan lists the jobs of a grid; a search proposes its jobs as it goes.")
            self._plan(grid)
            return []
        try:
            self.run_jobs(grid.to_run())
        except (FailedJobsError, RunningElsewhereError):
            if not adaptive:
                raise
        return [_returned(job) for job in jobs]

    def _plan(self, grid: Grid) -> None:
        """Check and print the jobs with their plans, for the card that the option may name."""
        from sts_lightning.sweep.job_list import print_plan
        from sts_lightning.workflows.checks import check_later_run

        check = partial(check_later_run, read=set())
        shares = self.gpus_per_job, self.jobs_per_gpu
        print_plan(grid.composed_jobs(), check, options().plan or None, *shares)

    @abstractmethod
    def run_jobs(self, jobs: Sequence[Job]) -> None:
        """Run the jobs, and store the outcome in each."""

    def _compose(self, overrides: list[str], number: int) -> DictConfig:
        composed: Any = self.hydra_context.config_loader.load_sweep_config(self.config, overrides)
        with open_dict(composed):
            composed.hydra.job.id = composed.hydra.job.num = number
        assert isinstance(composed, DictConfig)
        return composed


class ProcessLauncher(JobLauncher):
    """Jobs on this machine; settings: ``conf/hydra/launcher/process.yaml``."""

    def __init__(
        self,
        jobs: int | None,
        gpus_per_job: int | None,
        jobs_per_gpu: int | None,
        timeout_minutes: float | None,
    ) -> None:
        check_numbers(gpus_per_job=gpus_per_job, jobs_per_gpu=jobs_per_gpu)
        check_numbers(jobs=jobs, timeout_minutes=timeout_minutes)
        self.jobs = jobs
        self.gpus_per_job = gpus_per_job
        self.jobs_per_gpu = jobs_per_gpu or 1
        self.timeout_minutes = timeout_minutes

    def run_jobs(self, jobs: Sequence[Job]) -> None:
        """Run several jobs at a time."""
        from sts_lightning.core.hardware import count_cores
        from sts_lightning.sweep.gpu_pool import Pool, visible_gpus
        from sts_lightning.sweep.local import run_jobs

        gpus = visible_gpus() if any(job.demand.gpus for job in jobs) else []
        pool = Pool(gpus, count_cores(), self.jobs, self.gpus_per_job, self.jobs_per_gpu)
        if gpus and self.jobs_per_gpu > 1:
            log.info("up to %d jobs share each GPU and its memory", self.jobs_per_gpu)
        run_jobs(jobs, pool, self.timeout_minutes)


class SlurmLauncher(JobLauncher):
    """Jobs as SLURM arrays, through submitit; requires a shared file system.

    A job that reaches its time limit is requeued and resumes from its last checkpoint. Settings:
    ``conf/hydra/launcher/slurm.yaml``.
    """

    def __init__(
        self,
        jobs: int | None,
        gpus_per_job: int | None,
        cpus_per_job: int,
        memory_gb: float | None,
        timeout_minutes: int,
        partition: str | None,
        extra: dict[str, Any],
    ) -> None:
        check_numbers(jobs=jobs, gpus_per_job=gpus_per_job, cpus_per_job=cpus_per_job)
        check_numbers(memory_gb=memory_gb, timeout_minutes=timeout_minutes)
        self.jobs = jobs
        self.gpus_per_job = gpus_per_job
        wanted = {
            "slurm_array_parallelism": jobs,
            "cpus_per_task": cpus_per_job,
            "tasks_per_node": 1,  # Lightning starts the processes of a job with several devices itself
            "mem_gb": memory_gb,
            "timeout_min": timeout_minutes,
            "slurm_partition": partition,
            **extra,
        }
        self.parameters = {name: value for name, value in wanted.items() if value is not None}

    def run_jobs(self, jobs: Sequence[Job]) -> None:
        """Submit all jobs and wait for them."""
        from sts_lightning.sweep.cluster import submit_to_slurm, watch

        folder = Path(self.config.hydra.sweep.dir) / ".submitit"
        handles = submit_to_slurm(jobs, folder, self.gpus_per_job, **self.parameters)
        watch(jobs, handles, self.jobs)


class RayLauncher(JobLauncher):
    """Jobs on a Ray cluster; requires a shared file system. Settings: ``conf/hydra/launcher/ray.yaml``."""

    def __init__(
        self,
        address: str | None,
        gpus_per_job: int | None,
        jobs_per_gpu: int | None,
        cpus_per_job: int,
        timeout_minutes: float | None,
    ) -> None:
        check_numbers(gpus_per_job=gpus_per_job, jobs_per_gpu=jobs_per_gpu)
        check_numbers(cpus_per_job=cpus_per_job, timeout_minutes=timeout_minutes)
        self.address = address
        self.gpus_per_job = gpus_per_job
        self.jobs_per_gpu = jobs_per_gpu or 1
        self.cpus_per_job = cpus_per_job
        self.timeout_minutes = timeout_minutes

    def run_jobs(self, jobs: Sequence[Job]) -> None:
        """Submit all jobs and wait for them."""
        from sts_lightning.sweep.cluster import submit_to_ray, watch

        limits = (self.cpus_per_job, self.gpus_per_job, self.timeout_minutes, self.jobs_per_gpu)
        watch(jobs, submit_to_ray(jobs, self.address, *limits))


def check_numbers(**settings: float | None) -> None:
    """Reject settings that are no numbers, or with which a sweep would wait forever; None is allowed.

    Args:
        settings: Settings of the launcher by name: ``gpus_per_job``, which is at least 0, or numbers above 0.

    Raises:
        ConfigError: One is wrong.
    """
    for name, value in settings.items():
        if value is None:
            continue
        whole, zero = name not in ("timeout_minutes", "memory_gb"), name == "gpus_per_job"
        is_number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if not is_number or not (value > 0 or (zero and value == 0)):
            words = f"{'a whole' if whole else 'a'} number {'of at least 0' if zero else 'above 0'}"
            key = f"hydra.launcher.{name}"
            raise ConfigError(f"{key} must be {words} or null, got {value}.", key=key)


def _returned(job: Job) -> JobReturn:
    failed = job.score is None  # a sweeper takes any value of a completed job for a number
    result = JobReturn(overrides=job.overrides, status=JobStatus.FAILED if failed else JobStatus.COMPLETED)
    problem = job.problem or job.state
    result.return_value = FailedJobsError(f"{job.folder}: {problem}") if failed else job.score
    return result


with contextlib.suppress(ImportError):  # the extra optuna; Hydra imports this file in any case
    from hydra_plugins.hydra_optuna_sweeper.optuna_sweeper import OptunaSweeper

    class SearchSweeper(OptunaSweeper):
        """Optuna's sweeper, which resolves ``${hydra:...}`` in the name of the sweep's folder."""

        def setup(
            self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
        ) -> None:
            """Set the configuration of Hydra, then set up Optuna's sweeper, which reads the folder."""
            HydraConfig.instance().set_config(config)
            super().setup(hydra_context=hydra_context, task_function=task_function, config=config)

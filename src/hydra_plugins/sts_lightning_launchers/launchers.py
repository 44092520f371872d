"""`hydra/launcher=process|slurm|ray`: each job of a sweep in a fresh process, with its own GPUs or cores."""

# Annotations are no texts here: dataclasses look these up in a module by its name, which Hydra leaves out.
from abc import abstractmethod
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus, configure_log
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict, read_write
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass

from sts_lightning.core.errors import ConfigError, FailedJobsError, RunningElsewhereError

if TYPE_CHECKING:
    from sts_lightning.sweep.job import Job

checked = dataclass(kw_only=True, config={"strict": True})
"""Decorator of launchers: a number with which a sweep would wait forever is an error of pydantic."""


@checked
class JobLauncher(Launcher):
    """Base class of launchers that run each job as its own command, as if typed without ``-m``.

    The folder of a job is named after its configuration, so that re-running a sweep skips finished jobs and
    resumes interrupted ones.
    """

    gpus_per_job: NonNegativeInt | None
    timeout_minutes: PositiveFloat | None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Store what Hydra has composed.

        The sweeper reads the folder of the sweep next, whose name may contain ``${hydra:...}``.
        """
        if config.get("plan"):  # the sweeper writes settings into the folder of the sweep next
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

        if "minimize" in str(self.config.hydra.sweeper.get("direction")):  # Optuna's sweeper by itself
            text = "hydra.sweeper.direction=minimize searches for the lowest dev Spearman."
            raise ConfigError(text, hint="Choose hydra/sweeper=search, or hydra.sweeper.direction=maximize.")
        if any(text.startswith("resume=") for overrides in job_overrides for text in overrides):
            hint = "Repeat the command of a sweep to resume its runs, or resume each run by itself."
            raise ConfigError("resume is for one run.", key="resume", hint=hint)
        configure_log(self.config.hydra.job_logging, self.config.hydra.verbose)
        adaptive = "BasicSweeper" not in self.config.hydra.sweeper._target_
        grid = Grid(self._compose)
        jobs = [
            grid.add(number, overrides) for number, overrides in enumerate(job_overrides, initial_job_idx)
        ]
        if self.config.get("plan"):
            if adaptive:
                raise ConfigError("plan lists the jobs of a grid; a search proposes its jobs as it goes.")
            from sts_lightning.sweep.plan import print_plan

            card = None if self.config.plan is True else str(self.config.plan)
            print_plan(grid.composed_jobs(), card)
            return []
        try:
            self.run_jobs(grid.to_run())
        except (FailedJobsError, RunningElsewhereError):
            if not adaptive:
                raise
        return [_returned(job) for job in jobs]

    @abstractmethod
    def run_jobs(self, jobs: Sequence["Job"]) -> None:
        """Run the jobs, and store the outcome in each."""

    def _compose(self, overrides: list[str], number: int) -> DictConfig:
        composed: DictConfig = self.hydra_context.config_loader.load_sweep_config(self.config, overrides)
        with open_dict(composed):
            composed.hydra.job.id = composed.hydra.job.num = number
        return composed


@checked
class ProcessLauncher(JobLauncher):
    """Jobs on this machine; settings: ``conf/hydra/launcher/process.yaml``."""

    jobs: PositiveInt | None
    jobs_per_gpu: PositiveInt = 1

    def run_jobs(self, jobs: Sequence["Job"]) -> None:
        """Run several jobs at a time."""
        from sts_lightning.core.hardware import count_cores
        from sts_lightning.sweep.gpu_pool import Pool, visible_gpus
        from sts_lightning.sweep.local import run_jobs

        gpus = visible_gpus() if any(job.demand.gpus for job in jobs) else []
        pool = Pool(gpus, count_cores(), self.jobs, self.gpus_per_job, self.jobs_per_gpu)
        run_jobs(jobs, pool, self.timeout_minutes)


@checked
class SlurmLauncher(JobLauncher):
    """Jobs on SLURM, through submitit; requires a shared file system.

    A job that reaches its time limit is requeued and resumes from its last checkpoint. Settings:
    ``conf/hydra/launcher/slurm.yaml``.
    """

    timeout_minutes: PositiveInt | None  # submitit takes no other
    jobs: PositiveInt | None
    cpus_per_job: PositiveInt
    memory_gb: PositiveFloat | None
    partition: str | None
    extra: dict[str, Any]

    def run_jobs(self, jobs: Sequence["Job"]) -> None:
        """Submit all jobs and wait for them."""
        if find_spec("submitit") is None:
            raise ConfigError(
                "hydra/launcher=slurm needs submitit.", hint="pip install 'sts-lightning[slurm]'."
            )
        from sts_lightning.sweep.slurm import on_slurm
        from sts_lightning.sweep.watch import watch

        start = on_slurm(
            jobs,
            Path(self.config.hydra.sweep.dir) / ".submitit",
            self.gpus_per_job,
            cpus_per_task=self.cpus_per_job,
            tasks_per_node=1,  # Lightning starts the processes of a job with several devices itself
            mem_gb=self.memory_gb,
            timeout_min=self.timeout_minutes,
            slurm_partition=self.partition,
            **self.extra,
        )
        watch(jobs, start, self.jobs)


@checked
class RayLauncher(JobLauncher):
    """Jobs on a Ray cluster; requires a shared file system. Settings: ``conf/hydra/launcher/ray.yaml``."""

    address: str | None
    cpus_per_job: PositiveInt
    jobs_per_gpu: PositiveInt = 1

    def run_jobs(self, jobs: Sequence["Job"]) -> None:
        """Submit all jobs and wait for them."""
        if find_spec("ray") is None:
            raise ConfigError("hydra/launcher=ray needs Ray.", hint="pip install 'sts-lightning[ray]'.")
        from sts_lightning.sweep.ray_cluster import on_ray
        from sts_lightning.sweep.watch import watch

        limits = (self.cpus_per_job, self.gpus_per_job, self.timeout_minutes, self.jobs_per_gpu)
        watch(jobs, on_ray(jobs, self.address, *limits))


def _returned(job: "Job") -> JobReturn:
    failed = job.score is None  # a sweeper takes any value of a completed job for a number
    result = JobReturn(overrides=job.overrides, status=JobStatus.FAILED if failed else JobStatus.COMPLETED)
    problem = FailedJobsError(f"{job.folder}: {job.problem or job.state}")
    result.return_value = problem if failed else job.score
    return result

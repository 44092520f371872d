"""`hydra/launcher=process|slurm|ray`: each job of a sweep in a fresh process, with its own GPUs or cores.

And `hydra/sweeper=search`, Optuna's sweeper with this project's folder names.
"""

# Annotations are no texts here: dataclasses look these up in a module by its name, which Hydra leaves out.
import contextlib
import logging
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus, configure_log
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict, read_write

from sts_lightning.core.errors import ConfigError, FailedJobsError, RunningElsewhereError

if TYPE_CHECKING:
    from sts_lightning.sweep.grid import Grid
    from sts_lightning.sweep.job import Job

log = logging.getLogger(__name__)


NUMBERS = ("jobs", "gpus_per_job", "jobs_per_gpu", "cpus_per_job", "memory_gb", "timeout_minutes")
"""Settings of launchers that are numbers."""


@dataclass(kw_only=True)
class JobLauncher(Launcher):
    """Base class of launchers that run each job as its own command, as if typed without ``-m``.

    The folder of a job is named after its configuration, so that re-running a sweep skips finished jobs and
    resumes interrupted ones.
    """

    gpus_per_job: int | None
    jobs_per_gpu: int | None = 1
    timeout_minutes: float | None

    def __post_init__(self) -> None:
        """Reject numbers with which a sweep would wait forever; null is allowed."""
        for name, value in vars(self).items():
            if name not in NUMBERS or value is None:
                continue
            whole, zero = name not in ("timeout_minutes", "memory_gb"), name == "gpus_per_job"
            is_number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
            if not is_number or not (value > 0 or (zero and value == 0)):
                words = f"{'a whole' if whole else 'a'} number {'of at least 0' if zero else 'above 0'}"
                key = f"hydra.launcher.{name}"
                raise ConfigError(f"{key} must be {words} or null, got {value}.", key=key)

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

        direction = self.config.hydra.sweeper.get("direction")
        if getattr(direction, "name", direction) == "minimize":  # Optuna's sweeper by itself
            raise ConfigError(
                "hydra.sweeper.direction=minimize searches for the lowest dev Spearman; use "
                "hydra/sweeper=search, or hydra.sweeper.direction=maximize."
            )
        if any(text.startswith("resume=") for overrides in job_overrides for text in overrides):
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
        if self.config.get("plan"):
            if adaptive:
                raise ConfigError("plan lists the jobs of a grid; a search proposes its jobs as it goes.")
            self._plan(grid)
            return []
        try:
            self.run_jobs(grid.to_run())
        except (FailedJobsError, RunningElsewhereError):
            if not adaptive:
                raise
        return [_returned(job) for job in jobs]

    def _plan(self, grid: "Grid") -> None:
        """Check and print the jobs with their plans, for the card that the setting may name."""
        from sts_lightning.sweep.job_list import print_plan
        from sts_lightning.workflows.checks import check_later_run

        check = partial(check_later_run, read=set())
        shares = self.gpus_per_job, self.jobs_per_gpu or 1
        card = self.config.plan
        print_plan(grid.composed_jobs(), check, None if card is True else str(card), *shares)

    @abstractmethod
    def run_jobs(self, jobs: Sequence["Job"]) -> None:
        """Run the jobs, and store the outcome in each."""

    def _compose(self, overrides: list[str], number: int) -> DictConfig:
        composed: Any = self.hydra_context.config_loader.load_sweep_config(self.config, overrides)
        with open_dict(composed):
            composed.hydra.job.id = composed.hydra.job.num = number
        assert isinstance(composed, DictConfig)
        return composed


@dataclass(kw_only=True)
class ProcessLauncher(JobLauncher):
    """Jobs on this machine; settings: ``conf/hydra/launcher/process.yaml``."""

    jobs: int | None

    def run_jobs(self, jobs: Sequence["Job"]) -> None:
        """Run several jobs at a time."""
        from sts_lightning.core.hardware import count_cores
        from sts_lightning.sweep.gpu_pool import Pool, visible_gpus
        from sts_lightning.sweep.local import run_jobs

        gpus, sharing = visible_gpus() if any(job.demand.gpus for job in jobs) else [], self.jobs_per_gpu or 1
        if gpus and sharing > 1:
            log.info("up to %d jobs share each GPU and its memory", sharing)
        run_jobs(jobs, Pool(gpus, count_cores(), self.jobs, self.gpus_per_job, sharing), self.timeout_minutes)


@dataclass(kw_only=True)
class SlurmLauncher(JobLauncher):
    """Jobs as SLURM arrays, through submitit; requires a shared file system.

    A job that reaches its time limit is requeued and resumes from its last checkpoint. Settings:
    ``conf/hydra/launcher/slurm.yaml``.
    """

    jobs: int | None
    cpus_per_job: int
    memory_gb: float | None
    partition: str | None
    extra: dict[str, Any]

    def run_jobs(self, jobs: Sequence["Job"]) -> None:
        """Submit all jobs and wait for them."""
        from sts_lightning.sweep.cluster import submit_to_slurm, watch

        parameters = {
            "slurm_array_parallelism": self.jobs,
            "cpus_per_task": self.cpus_per_job,
            "tasks_per_node": 1,  # Lightning starts the processes of a job with several devices itself
            "mem_gb": self.memory_gb,
            "timeout_min": self.timeout_minutes,
            "slurm_partition": self.partition,
            **self.extra,
        }
        folder = Path(self.config.hydra.sweep.dir) / ".submitit"
        given = {name: value for name, value in parameters.items() if value is not None}
        watch(jobs, submit_to_slurm(jobs, folder, self.gpus_per_job, **given), self.jobs)


@dataclass(kw_only=True)
class RayLauncher(JobLauncher):
    """Jobs on a Ray cluster; requires a shared file system. Settings: ``conf/hydra/launcher/ray.yaml``."""

    address: str | None
    cpus_per_job: int

    def run_jobs(self, jobs: Sequence["Job"]) -> None:
        """Submit all jobs and wait for them."""
        from sts_lightning.sweep.cluster import submit_to_ray, watch

        limits = (self.cpus_per_job, self.gpus_per_job, self.timeout_minutes, self.jobs_per_gpu or 1)
        watch(jobs, submit_to_ray(jobs, self.address, *limits))


def _returned(job: "Job") -> JobReturn:
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

"""`hydra/launcher=process|slurm|ray`: each job of a sweep in a fresh process, with its own GPUs or cores."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, JobStatus, configure_log, filter_overrides
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict

from sts_lightning.errors import ConfigError, FailedJobsError

if TYPE_CHECKING:
    from sts_lightning.sweep.job import Job

log = logging.getLogger(__name__)


class JobLauncher(Launcher):
    """Runs each job as a command of its own, as if the user had typed it without ``-m``.

    A job's folder is named after its configuration, so a sweep that is started again leaves alone what has
    finished and goes on with what was cut.
    """

    gpus_per_job: int | None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Hydra hands over what it has composed."""
        self.hydra_context = hydra_context
        self.config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> list[JobReturn]:
        """Run the jobs.

        A sweeper that chooses what to try next is told which failed, and decides whether to go on.

        Raises:
            FailedJobsError: Some failed, in a sweep that was known from the start.
            UserError: They cannot be run, or the user stopped them.
        """
        from sts_lightning.sweep.job import Job, job_folder, job_trust  # not needed before a sweep
        from sts_lightning.sweep.resources import demand_of

        direction = self.config.hydra.sweeper.get("direction")
        if getattr(direction, "name", direction) == "minimize":  # Optuna's sweeper by itself
            raise ConfigError(
                "hydra.sweeper.direction=minimize looks for the lowest dev Spearman; use "
                "hydra/sweeper=search, or hydra.sweeper.direction=maximize."
            )
        configure_log(self.config.hydra.job_logging, self.config.hydra.verbose)
        jobs: list[Job] = []
        distinct: dict[Path, Job] = {}  # a sweeper may propose the same values twice
        for number, overrides in enumerate(job_overrides, start=initial_job_idx):
            composed = self._compose(list(overrides), number)
            job = Job(number, tuple(filter_overrides(overrides)), job_folder(composed), demand_of(composed))
            job.trust = job_trust(composed, overrides, partial(self._compose, number=number))
            jobs.append(distinct.setdefault(job.folder, job))
        try:
            self.carry_out(list(distinct.values()))
        except FailedJobsError:
            if "BasicSweeper" in self.config.hydra.sweeper._target_:
                raise
        return [_returned(job) for job in jobs]

    @abstractmethod
    def carry_out(self, jobs: Sequence[Job]) -> None:
        """Run the jobs, and put into each what became of it."""

    def _compose(self, overrides: list[str], number: int) -> DictConfig:
        composed: Any = self.hydra_context.config_loader.load_sweep_config(self.config, overrides)
        with open_dict(composed):
            composed.hydra.job.id = composed.hydra.job.num = number
        assert isinstance(composed, DictConfig)
        return composed


class ProcessLauncher(JobLauncher):
    """Jobs on this machine.

    Args:
        jobs: Most at a time; null: as many as the GPUs allow, and one for each two cores without a GPU.
        gpus_per_job: GPUs that a job sees; null: as many as its own trainer.devices asks for.
        timeout_minutes: After which a job is stopped; null: never.
    """

    def __init__(self, jobs: int | None, gpus_per_job: int | None, timeout_minutes: float | None) -> None:
        self.jobs = jobs
        self.gpus_per_job = gpus_per_job
        self.timeout_minutes = timeout_minutes

    def carry_out(self, jobs: Sequence[Job]) -> None:
        """Several at a time."""
        from sts_lightning.sweep.local import carry_out
        from sts_lightning.sweep.resources import this_machine

        carry_out(jobs, this_machine(self.jobs, self.gpus_per_job, jobs), self.timeout_minutes)


class SlurmLauncher(JobLauncher):
    """Jobs as an array of SLURM's, through submitit; the machines share the file system.

    A job whose time is up is queued again and goes on from its last checkpoint.

    Args:
        jobs: At a time; null: as many as SLURM allows.
        gpus_per_job: GPUs of each job, all on one node; null: as many as its own trainer.devices asks for.
        cpus_per_job: Cores of each.
        memory_gb: Memory of each; null: SLURM's default.
        timeout_minutes: SLURM's time limit.
        partition: Where they run; null: SLURM's default.
        cluster: ``slurm``; ``local``: processes of this machine, to try a sweep out.
        extra: Further parameters of submitit's executor, such as ``slurm_account``.
    """

    def __init__(
        self,
        jobs: int | None,
        gpus_per_job: int | None,
        cpus_per_job: int,
        memory_gb: float | None,
        timeout_minutes: int,
        partition: str | None,
        cluster: str,
        extra: dict[str, Any],
    ) -> None:
        self.cluster = cluster
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

    def carry_out(self, jobs: Sequence[Job]) -> None:
        """All submitted at once."""
        from sts_lightning.sweep.cluster import watch
        from sts_lightning.sweep.slurm import submit_to_slurm

        folder = Path(self.config.hydra.sweep.dir) / ".submitit"
        watch(jobs, submit_to_slurm(jobs, folder, self.cluster, self.gpus_per_job, **self.parameters))


class RayLauncher(JobLauncher):
    """Jobs on a Ray cluster whose machines share the file system.

    Args:
        address: Of the cluster, such as ``auto`` on one of its machines; null: one on this machine.
        gpus_per_job: GPUs that a job is given and sees; null: as many as its own trainer.devices asks
            for, if the cluster has any.
        cpus_per_job: Cores of each.
        timeout_minutes: After which a job is stopped; null: never.
    """

    def __init__(
        self, address: str | None, gpus_per_job: int | None, cpus_per_job: int, timeout_minutes: float | None
    ) -> None:
        self.address = address
        self.gpus_per_job = gpus_per_job
        self.cpus_per_job = cpus_per_job
        self.timeout_minutes = timeout_minutes

    def carry_out(self, jobs: Sequence[Job]) -> None:
        """As many at a time as the cluster has room for."""
        from sts_lightning.sweep.cluster import watch
        from sts_lightning.sweep.ray_cluster import submit_to_ray

        watch(
            jobs,
            submit_to_ray(jobs, self.address, self.cpus_per_job, self.gpus_per_job, self.timeout_minutes),
        )


def _returned(job: Job) -> JobReturn:
    failed = job.score is None  # a sweeper that is told of no failure takes the value for a number
    result = JobReturn(overrides=job.overrides, status=JobStatus.FAILED if failed else JobStatus.COMPLETED)
    problem = job.problem or job.state
    result.return_value = FailedJobsError(f"{job.folder}: {problem}") if failed else job.score
    return result


def _store(name: str, launcher: type[JobLauncher], **settings: Any) -> None:
    node = {"_target_": f"{__name__}.{launcher.__name__}", **settings}
    ConfigStore.instance().store(group="hydra/launcher", name=name, node=node)


_store("process", ProcessLauncher, jobs=None, gpus_per_job=None, timeout_minutes=None)
_store(
    "slurm",
    SlurmLauncher,
    jobs=None,
    gpus_per_job=None,
    cpus_per_job=8,
    memory_gb=None,
    timeout_minutes=24 * 60,
    partition=None,
    cluster="slurm",
    extra={},
)
_store("ray", RayLauncher, address=None, gpus_per_job=None, cpus_per_job=2, timeout_minutes=None)

"""Jobs of a sweep as SLURM arrays, submitted through submitit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sts_lightning.errors import ConfigError, UserError
from sts_lightning.sweep.cluster import Handle, RemoteJob
from sts_lightning.sweep.job import Job, State
from sts_lightning.sweep.resources import gpus_for


def submit_to_slurm(
    jobs: Sequence[Job], folder: Path, cluster: str | None, gpus_per_job: int | None = None, **parameters: Any
) -> list[Handle]:
    """Submit jobs as SLURM arrays, one for each number of GPUs and each set of shared stages.

    A job that can use a GPU gets one, whether or not the submitting machine has any. A job that starts from
    shared stages depends on their jobs, so that it is not allocated anything before these have ended.

    Args:
        jobs: Jobs of the sweep, shared stages before the jobs that need them.
        folder: Folder of submitit's own files.
        cluster: ``slurm``, ``local`` (processes of this machine, for trials), or None: SLURM if available.
        gpus_per_job: Number of GPUs of each job that uses any; None: the demand of the job decides.
        **parameters: Parameters of submitit's executor, such as ``timeout_min`` or ``slurm_partition``.

    Raises:
        ConfigError: submitit is not installed, there is no SLURM, or a parameter is unknown.
    """
    try:
        import submitit
    except ImportError as error:
        raise ConfigError(
            "hydra/launcher=slurm needs submitit: pip install 'sts-lightning[slurm]'."
        ) from error
    handles: dict[Path, Handle] = {}
    for array in _arrays(jobs, gpus_per_job, together="slurm_array_parallelism" in parameters):
        after = [handles[need] for need in array.needs]
        wanted = parameters | array.parameters(after, parameters.get("slurm_dependency"))
        executor = _executor(submitit, folder, cluster, wanted)
        if executor.cluster == "local" and after:  # its processes would start at once
            submits = {job.folder: partial(_submit, executor, job) for job in array.jobs}
            handles |= {path: _Later(submit, after) for path, submit in submits.items()}
            continue
        with executor.batch():
            submitted = [executor.submit(RemoteJob(job)) for job in array.jobs]
        handles |= {job.folder: _SlurmHandle(own) for job, own in zip(array.jobs, submitted, strict=True)}
    return [handles[job.folder] for job in jobs]


def _executor(submitit: Any, folder: Path, cluster: str | None, parameters: Mapping[str, Any]) -> Any:
    """Return a new executor: settings of an array cannot be taken back for the next one."""
    try:
        executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
        executor.update_parameters(**parameters)
    except (RuntimeError, NameError, ValueError, TypeError) as error:
        raise ConfigError(f"hydra.launcher: {error}") from error
    return executor


@dataclass(frozen=True)
class _Array:
    """Jobs with the same number of GPUs that wait for the same shared stages."""

    gpus: int
    needs: tuple[Path, ...]
    jobs: list[Job]

    def parameters(self, after: Sequence[Handle], dependency: str | None) -> dict[str, Any]:
        """Return the parameters of submitit's executor for these jobs.

        ``afterany``: a job that starts although a stage has failed ends at once, while one that waits for
        success would stay in the queue for ever.

        Args:
            after: Submitted jobs of the shared stages.
            dependency: Dependency that the user asked for.
        """
        wanted: dict[str, Any] = {"gpus_per_node": self.gpus} if self.gpus else {}  # some reject 0
        if after:
            stages = ":".join(
                [
                    "afterany",
                    *(str(handle.job.job_id) for handle in after if isinstance(handle, _SlurmHandle)),
                ]
            )
            wanted["slurm_dependency"] = stages if dependency is None else f"{dependency},{stages}"
        return wanted


def _arrays(jobs: Sequence[Job], gpus_per_job: int | None, together: bool) -> list[_Array]:
    """Group jobs into arrays, shared stages before the jobs that need them.

    Args:
        jobs: Jobs of the sweep.
        gpus_per_job: Number of GPUs of each job that uses any; None: the demand of the job decides.
        together: Whether jobs that need different stages share an array, whose limit on jobs at a time then
            applies to all of them.
    """
    stages = {job.folder for job in jobs if job.stage is not None}
    needed = {job.folder: tuple(need for need in job.needs if need in stages) for job in jobs}
    if together:
        every = tuple(dict.fromkeys(need for job in jobs if job.stage is None for need in needed[job.folder]))
        needed |= {job.folder: every for job in jobs if job.stage is None and needed[job.folder]}
    arrays: dict[tuple[int, int, tuple[Path, ...]], _Array] = {}
    for job in jobs:
        gpus, needs = _gpus(job, gpus_per_job), needed[job.folder]
        key = (len(needs), gpus, needs)  # a stage needs fewer than the jobs that need it
        arrays.setdefault(key, _Array(gpus, needs, [])).jobs.append(job)
    return [arrays[key] for key in sorted(arrays)]


def _submit(executor: Any, job: Job) -> Handle:
    return _SlurmHandle(executor.submit(RemoteJob(job)))


def _gpus(job: Job, per_job: int | None) -> int:
    """Return the number of GPUs to request; ``devices=-1`` (all of a node) needs an explicit number."""
    if job.demand.gpus == -1 and per_job is None:
        raise ConfigError(
            "trainer.devices=-1 on SLURM needs a number of GPUs: add hydra.launcher.gpus_per_job=..."
        )
    return gpus_for(job.demand, per_job if per_job is not None else max(job.demand.gpus, 0), per_job)


class _Later:
    """A job that is submitted once others have ended."""

    def __init__(self, submit: Callable[[], Handle], after: Sequence[Handle]) -> None:
        self.submit = submit
        self.after = after
        self.handle: Handle | None = None

    def state(self) -> State:
        if self.handle is None:
            if any(other.state() != "done" for other in self.after):
                return "queued"
            self.handle = self.submit()
        return self.handle.state()

    def result(self) -> Job:
        assert self.handle is not None  # its state was "done"
        return self.handle.result()

    def cancel(self) -> None:
        if self.handle is not None:
            self.handle.cancel()


class _SlurmHandle:
    def __init__(self, job: Any) -> None:
        self.job = job

    def state(self) -> State:
        if self.job.done():
            return "done"
        return "running" if self.job.state == "RUNNING" else "queued"

    def result(self) -> Job:
        from submitit.core.utils import FailedJobError, UncompletedJobError

        try:
            found: Job = self.job.result()
        except (FailedJobError, UncompletedJobError) as error:
            lines = str(error).strip().splitlines()
            raise UserError(f"SLURM job {self.job.job_id}, {self.job.state}: {lines[-1]}") from error
        return found

    def cancel(self) -> None:
        self.job.cancel()

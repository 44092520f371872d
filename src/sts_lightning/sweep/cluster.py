"""Sweeps beyond one machine: jobs submitted to SLURM through submitit, or to a Ray cluster.

A shared file system is required. A job runs in the working directory of the sweep, with the same Python, and
its run folder is that of a local sweep, so that local and cluster sweeps resume each other's runs. Cores,
memory, time limit and partition: ``conf/hydra/launcher/slurm.yaml`` and ``ray.yaml``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import logging
import math
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from sts_lightning.core.errors import ConfigError, UserError
from sts_lightning.core.signals import listen_again
from sts_lightning.sweep.gpu_pool import check_sharing, gpus_for
from sts_lightning.sweep.job import (
    FAILED,
    PATIENCE,
    Job,
    Resources,
    State,
    run_job,
    skip_job,
    stop_job,
)
from sts_lightning.sweep.overview import conclude, interrupted, overview, report_job

POLL = 1.0
"""Seconds between two queries of the jobs."""

SQUEUE_POLL = 10.0
"""Seconds between two calls of squeue; SLURM's manual asks not to call it in a tight loop."""

FILE_DELAY = 15.0
"""Seconds after which a file that a job has written must be seen on a shared file system."""


class Handle(Protocol):
    """A submitted job: all that a cluster has to offer for `watch` besides its submission."""

    def state(self) -> State:
        """Return ``queued``, ``running``, or ``done`` once `result` is available."""

    def result(self) -> Job:
        """Return the job with its outcome.

        Raises:
            UserError: The cluster lost the job.
        """

    def cancel(self) -> None:
        """End the job, which saves its state first, or take it out of the queue."""


class RemoteJob:
    """A job as a picklable function, which runs it as a process in the working directory of the sweep.

    Args:
        job: The job.
        timeout_minutes: Its time limit, if the cluster has none itself.
        environment: Environment variables of its process.
    """

    def __init__(
        self, job: Job, timeout_minutes: float | None = None, environment: Mapping[str, str] = {}
    ) -> None:
        self.job = dataclasses.replace(job, process=None)
        self.timeout_minutes = timeout_minutes
        self.resources = Resources(dict(environment))
        self.folder = Path.cwd()

    def __call__(self) -> Job:
        """Run the job and return it with its outcome."""
        os.chdir(self.folder)
        try:
            run_job(self.job, self.resources, self.timeout_minutes)
        except KeyboardInterrupt:  # Ray cancels the job, which saves its state first
            stop_job(self.job)
        return dataclasses.replace(self.job, process=None)

    def checkpoint(self) -> Any:
        """Requeue hook: on a SLURM timeout submitit resubmits the job, which resumes.

        submitit calls this from a signal handler shortly before SLURM kills the job. The job saves its state
        first.
        """
        from submitit.helpers import DelayedSubmission

        stop_job(self.job)
        self.job = dataclasses.replace(self.job, process=None)
        return DelayedSubmission(self)


def watch(jobs: Sequence[Job], handles: Sequence[Handle], at_once: int | None = None) -> None:
    """Wait until all submitted jobs have ended; Ctrl-C cancels them and waits until they have saved.

    Args:
        jobs: Jobs of the sweep, updated in place.
        handles: Submitted jobs, in the same order.
        at_once: Maximum number of jobs at a time; None for any.

    Raises:
        FailedJobsError: Some jobs failed; the message names their output files.
        RunningElsewhereError: No job failed, but some run elsewhere.
        InterruptedRunError: The user stopped the sweep.
    """
    workers = min(at_once or len(jobs), len(jobs))
    left = dict(enumerate(handles))
    by_folder = {job.folder: job for job in jobs}
    try:
        with overview(jobs, workers):
            while left:
                for index, handle in list(left.items()):
                    _update(jobs[index], handle, by_folder)
                    if jobs[index].state not in ("queued", "running"):
                        del left[index]
                        report_job(jobs[index])
                time.sleep(POLL if left else 0)
    except KeyboardInterrupt as error:
        for handle in left.values():
            handle.cancel()
        deadline = time.monotonic() + PATIENCE
        with contextlib.suppress(KeyboardInterrupt):  # once more: do not wait until they have saved
            while time.monotonic() < deadline and any(h.state() != "done" for h in left.values()):
                time.sleep(POLL)
        raise interrupted(jobs, error) from None
    conclude(jobs, workers)


def _update(job: Job, handle: Handle, by_folder: Mapping[Path, Job]) -> None:
    for need in job.needs:
        if need in by_folder and by_folder[need].state in FAILED:
            handle.cancel()
            skip_job(job, need)
            return
    state = handle.state()
    if state in ("queued", "running"):
        job.state = state
        return
    try:
        result = handle.result()
    except UserError as error:
        job.state, job.problem = "failed", str(error)
        return
    for name in ("state", "score", "pairs", "seconds", "problem"):
        setattr(job, name, getattr(result, name))


def submit_to_slurm(
    jobs: Sequence[Job], folder: Path, gpus_per_job: int | None = None, **parameters: Any
) -> list[Handle]:
    """Submit jobs as SLURM arrays, one for each number of GPUs and each set of jobs that they start from.

    A job that can use a GPU gets one, whether or not the submitting machine has any. A job that starts from
    others depends on them, so that it is not allocated anything before these have ended.

    Args:
        jobs: Jobs of the sweep, each after those that it needs.
        folder: Folder of submitit's own files.
        gpus_per_job: Number of GPUs of each job that uses any; None: the demand of the job decides.
        **parameters: Parameters of submitit's executor, such as ``timeout_min`` or ``slurm_partition``.

    Raises:
        ConfigError: submitit is not installed, there is no SLURM, or it rejects a parameter.
    """
    try:
        import submitit
        from submitit.core.utils import FailedJobError
    except ImportError as error:
        raise ConfigError(
            "hydra/launcher=slurm needs submitit: pip install 'sts-lightning[slurm]'."
        ) from error
    of_sweep = {job.folder for job in jobs}
    needed = {job.folder: tuple(need for need in job.needs if need in of_sweep) for job in jobs}
    if "slurm_array_parallelism" in parameters:  # a limit of each array: all jobs share one
        every = tuple(dict.fromkeys(need for needs in needed.values() for need in needs))
        later = [job.folder for job in jobs if needed[job.folder] and job.folder not in every]
        needed |= dict.fromkeys(later, every)

    def array_of(job: Job) -> tuple[int, int, tuple[Path, ...]]:
        needs = needed[job.folder]
        return len(needs), _slurm_gpus(job, gpus_per_job), needs  # a job needs fewer than what needs it

    queue = _SlurmQueue()
    handles: dict[Path, _SlurmHandle] = {}
    for (_, gpus, needs), array in itertools.groupby(sorted(jobs, key=array_of), array_of):
        wanted = {**parameters, **({"gpus_per_node": gpus} if gpus else {})}  # some reject 0
        if needs:
            # afterany: a job that starts although the one before has failed ends at once, while one that
            # waits for success would stay in the queue for ever.
            after = ":".join(["afterany", *(str(handles[need].job.job_id) for need in needs)])
            wanted["slurm_dependency"] = ",".join(filter(None, (parameters.get("slurm_dependency"), after)))
        try:  # a new one each time: settings of an array cannot be taken back for the next one
            executor = submitit.AutoExecutor(folder=folder, cluster="slurm")
            executor.update_parameters(**wanted)
        except (RuntimeError, NameError, ValueError, TypeError) as error:
            raise ConfigError(f"hydra.launcher: {error}") from error
        array_jobs = list(array)
        try:
            with executor.batch():
                submitted = [executor.submit(RemoteJob(job)) for job in array_jobs]
        except FailedJobError as error:  # sbatch says why: no such partition, no GPUs, no account
            for handle in handles.values():
                handle.cancel()
            raise ConfigError(f"hydra.launcher: {' '.join(str(error).split())}") from error
        for job, slurm_job in zip(array_jobs, submitted, strict=True):
            handles[job.folder] = _SlurmHandle(slurm_job, queue)
    return [handles[job.folder] for job in jobs]


def _slurm_gpus(job: Job, per_job: int | None) -> int:
    """Return the number of GPUs to request; ``devices=-1`` (all of a node) needs an explicit number."""
    if job.demand.gpus == -1 and per_job is None:
        raise ConfigError(
            "trainer.devices=-1 on SLURM needs a number of GPUs: add hydra.launcher.gpus_per_job=..."
        )
    return gpus_for(job.demand, per_job if per_job is not None else max(job.demand.gpus, 0), per_job)


class _SlurmQueue:
    """This user's jobs in SLURM's queue.

    submitit asks sacct instead, which fails on a cluster without accounting: a job that is cancelled there
    would be waited for without end. submitit also takes a job that has stored a result as ended, although
    SLURM queues a preempted job again, which then resumes.
    """

    COMMAND = ("squeue", "--me", "--noheader", "--array", "--format=%i %T")
    STATES = "--states=PENDING,RUNNING,SUSPENDED,COMPLETING"  # the default, which a variable may change

    def __init__(self) -> None:
        self._states: dict[str, str] | None = None
        self._asked = -SQUEUE_POLL  # of a clock that starts at 0

    def state(self, number: str) -> State:
        """Return ``queued`` or ``running``; ``done`` if the job is no longer listed."""
        if time.monotonic() >= self._asked + SQUEUE_POLL:
            self._asked = time.monotonic()
            done = subprocess.run([*self.COMMAND, self.STATES], capture_output=True, text=True, check=False)
            if done.returncode == 0:  # else the controller does not answer, and the last answer stays
                self._states = dict(map(str.split, done.stdout.splitlines()))
        if self._states is None:
            return "queued"
        state = self._states.get(number)
        return "done" if state is None else "queued" if state == "PENDING" else "running"


class _SlurmHandle:
    """A job of submitit."""

    def __init__(self, job: Any, queue: _SlurmQueue) -> None:
        self.job = job
        self.queue = queue
        self._ended: float | None = None

    def state(self) -> State:
        state = self.queue.state(self.job.job_id)
        if state != "done":
            self._ended = None
            return state
        self._ended = self._ended or time.monotonic()
        late = time.monotonic() > self._ended + FILE_DELAY
        return "done" if late or self.job.paths.result_pickle.exists() else "running"

    def result(self) -> Job:
        from submitit.core.utils import FailedJobError

        if not self.job.paths.result_pickle.exists():
            printed = (self.job.stderr() or "it was cancelled, or its node failed").strip().splitlines()
            raise UserError(f"SLURM job {self.job.job_id} ended without a result: {printed[-1]}")
        try:
            returned: Job = self.job.result()
        except FailedJobError as error:
            raise UserError(f"SLURM job {self.job.job_id}: {str(error).strip().splitlines()[-1]}") from error
        return returned

    def cancel(self) -> None:
        self.job.cancel(check=False)


def submit_to_ray(
    jobs: Sequence[Job],
    address: str | None,
    cpus: float,
    gpus_per_job: int | None,
    timeout_minutes: float | None,
    jobs_per_gpu: int = 1,
) -> list[Handle]:
    """Submit jobs to a Ray cluster; each waits until the cluster has room for it.

    A job that starts from others is not placed, and holds nothing, before these have ended.

    Args:
        jobs: Jobs of the sweep, each after those that it needs.
        address: Address of the cluster; None: that of the environment, or a new cluster on this machine.
        cpus: Number of cores of each job.
        gpus_per_job: Number of GPUs assigned to each job; None: the demand of the job decides, if the cluster
            has any.
        timeout_minutes: Time limit of each job, after which it saves its state and ends; None: no limit.
        jobs_per_gpu: Number of jobs that share a GPU.

    Raises:
        ConfigError: Ray is not installed, the cluster cannot be reached or has no room, or jobs of several
            GPUs would share.
    """
    try:
        import ray
    except ImportError as error:
        raise ConfigError("hydra/launcher=ray needs Ray: pip install 'sts-lightning[ray]'.") from error
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
            listen_again()  # Ray's own handler of SIGTERM would end the sweep without cancelling its jobs
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise ConfigError(f"hydra.launcher.address={address}: {str(error).splitlines()[0]}") from error
    room: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    if cpus > room.get("CPU", 0):
        raise ConfigError(
            f"a job needs {cpus:g} CPUs, but the Ray cluster has {room.get('CPU', 0):g}; reduce "
            "hydra.launcher.cpus_per_job."
        )
    gpus = [gpus_for(job.demand, int(room.get("GPU", 0)), gpus_per_job) for job in jobs]
    check_sharing(jobs_per_gpu, gpus)

    def call(remote: RemoteJob, *_: Job) -> Job:
        return remote()

    # A new worker for each job, so that no state is shared.
    task = ray.remote(num_cpus=cpus, max_calls=1, max_retries=0)(call)
    threads = {"OMP_NUM_THREADS": str(max(1, int(cpus)))}
    references: dict[Path, Any] = {}
    for job, count in zip(jobs, gpus, strict=True):
        before = [references[need] for need in job.needs if need in references]  # Ray waits for arguments
        # Ray's interrupt reaches Python between two looks at a process with a limit, never in a wait without.
        remote = RemoteJob(job, timeout_minutes or math.inf, threads)
        references[job.folder] = task.options(num_gpus=count / jobs_per_gpu).remote(remote, *before)
    return [_RayHandle(references[job.folder]) for job in jobs]


class _RayHandle:
    """A job of Ray."""

    def __init__(self, reference: Any) -> None:
        self.reference = reference

    def state(self) -> State:
        import ray

        ready, _ = ray.wait([self.reference], timeout=0)
        return "done" if ready else "running"

    def result(self) -> Job:
        import ray

        try:
            returned: Job = ray.get(self.reference)
        except ray.exceptions.RayError as error:
            raise UserError(f"Ray: {str(error).strip().splitlines()[-1]}") from error
        return returned

    def cancel(self) -> None:
        import ray

        ray.cancel(self.reference)  # by force, Ray would kill the processes of the job too

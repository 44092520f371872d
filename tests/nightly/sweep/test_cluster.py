"""A job of a cluster, which may be stopped and queued again; submitit's local executor stands for SLURM."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import psutil
import pytest

from sts_lightning.core.errors import FailedJobsError
from sts_lightning.sweep import local as local_module
from sts_lightning.sweep.local import RemoteJob
from sts_lightning.sweep.watch import watch
from tests.unit.sweep.conftest import jobs, starts
from tests.unit.sweep.test_slurm import local as local
from tests.unit.sweep.test_slurm import slurm


@pytest.mark.usefixtures("local")
def test_jobs_that_end_fail_and_are_cancelled(tmp_path: Path) -> None:
    """A stopped job has no result: SLURM may start it again, while a stored result would end the wait."""
    done, failed, stopped = planned = jobs(tmp_path, "one", "fail", "term")
    with pytest.raises(FailedJobsError, match="2 of 3 jobs failed"):
        watch(planned, slurm.on_slurm(planned, tmp_path / "submitit", timeout_min=5), poll=0.1)
    assert [job.state for job in planned] == ["done", "failed", "failed"]
    assert (done.score, failed.problem) == (53.0, "error: it went wrong")
    assert stopped.problem is not None
    assert stopped.problem.endswith("ended without a result: it was stopped by SIGTERM")


@pytest.mark.usefixtures("local")
def test_a_job_at_its_time_limit_is_queued_again_and_resumes(tmp_path: Path) -> None:
    """submitit's handler of the signal that announces the limit; its local executor queues a job again."""
    (job,) = jobs(tmp_path, "hang")
    handle = slurm.on_slurm([job], tmp_path / "submitit", timeout_min=60)(job)
    deadline = time.monotonic() + 60
    while not (job.folder / "checkpoints" / "last.ckpt").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.5)
    (process,) = psutil.Process(int(handle.job.job_id)).children()
    process.send_signal(signal.SIGUSR2)
    while handle.state() != "done" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert handle.result().state == "done"
    assert [start[0] for start in starts(job)] == ["False", "True"]


@pytest.mark.parametrize(("obeys", "state"), [(True, "stopped"), (False, "failed")])
def test_an_interrupted_job_may_save_and_is_killed_if_it_does_not_end(
    obeys: bool, state: str, tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a time limit of the process launcher does; Ray interrupts a job that is cancelled."""
    monkeypatch.setattr(local_module, "PATIENCE", 20.0 if obeys else 0.3)
    ready = tmp_path / "ready"
    ignore = "" if obeys else "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    script.write_text(
        f"import pathlib, signal, time\n{ignore}\npathlib.Path({str(ready)!r}).touch()\ntime.sleep(60)"
    )
    (job,) = jobs(tmp_path, "one")
    looks = local_module.Process.state

    def interrupted(process: local_module.Process) -> object:
        if ready.exists():
            monkeypatch.setattr(local_module.Process, "state", looks)
            raise KeyboardInterrupt
        return looks(process)

    monkeypatch.setattr(local_module.Process, "state", interrupted)
    assert RemoteJob(job)().state == state

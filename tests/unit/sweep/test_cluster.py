"""Jobs of a sweep on a cluster."""

from __future__ import annotations

import pickle
import signal
import subprocess
from pathlib import Path

import pytest

from sts_lightning.core.errors import UserError
from sts_lightning.sweep import cluster
from sts_lightning.sweep import job as job_module
from sts_lightning.sweep.cluster import Handle, watch
from sts_lightning.sweep.job import Job
from tests.unit.sweep.conftest import jobs


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "POLL", 0.1)


def test_ctrl_c_cancels_the_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled: list[int] = []

    class Waits:
        def __init__(self, number: int) -> None:
            self.number = number

        def state(self) -> str:
            return "running"

        def cancel(self) -> None:
            cancelled.append(self.number)

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster.time, "sleep", interrupt)
    planned = jobs(tmp_path, "one", "two")
    handles: list[Handle] = [Waits(0), Waits(1)]  # type: ignore[list-item]
    with pytest.raises(UserError, match="stopped by Ctrl-C; 2 of 2 jobs are left"):
        watch(planned, handles)
    assert cancelled == [0, 1]


@pytest.mark.parametrize("way", ["cancelled by Ray", "time limit of SLURM"])
@pytest.mark.parametrize(("obeys", "signalled"), [(True, signal.SIGTERM), (False, signal.SIGKILL)])
def test_a_cluster_that_ends_a_job_lets_it_save(
    way: str, obeys: bool, signalled: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a time limit of the process launcher does."""
    pytest.importorskip("submitit")
    monkeypatch.setattr(job_module, "PATIENCE", 20.0 if obeys else 0.3)
    (job,) = jobs(tmp_path, "one")
    wait = "while :; do sleep 0.05; done"
    command = ["sh", "-c", wait if obeys else f"trap '' TERM; echo; {wait}"]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE)
    if not obeys:
        assert process.stdout is not None
        process.stdout.readline()  # the trap is set

    def begin(begun: Job, *_: object) -> None:
        begun.process = process
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster, "run_job", begin)
    remote = cluster.RemoteJob(job)
    if way == "cancelled by Ray":
        remote()
    else:
        remote.job.process = process
        assert pickle.loads(pickle.dumps(remote.checkpoint())).function.job.folder == job.folder
    assert process.wait(5) == -signalled

"""What submitit calls when SLURM announces a time limit."""

from __future__ import annotations

import pickle
import threading
import time
from pathlib import Path

import pytest

from sts_lightning.sweep import cluster
from tests.unit.sweep.conftest import jobs, starts
from tests.unit.sweep.test_cluster import _quick as _quick


def test_a_job_resumes_after_slurms_time_limit(tmp_path: Path) -> None:
    """Submitit's signal handler: the job saves its state, and resumes once it is queued again."""
    pytest.importorskip("submitit")
    (job,) = jobs(tmp_path, "hang")
    remote = cluster.RemoteJob(job)
    thread = threading.Thread(target=remote)
    thread.start()
    deadline = time.monotonic() + 60
    while not (job.folder / "checkpoints" / "last.ckpt").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.5)
    again = pickle.loads(pickle.dumps(remote.checkpoint()))
    thread.join(10)
    assert remote.job.state == "stopped"
    assert again.function().state == "done"
    assert [start[0] for start in starts(job)] == ["False", "True"]

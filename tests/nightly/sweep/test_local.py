"""Jobs of a sweep; most of them run a small script instead of train.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from sts_lightning.core.errors import FailedJobsError, RunningElsewhereError, UserError
from sts_lightning.runs.lock import locked
from sts_lightning.sweep.gpu_pool import Pool
from sts_lightning.sweep.job import Demand, Job
from sts_lightning.sweep.local import run_jobs
from tests.unit.sweep.conftest import alone, jobs, starts

Cli = Callable[..., subprocess.CompletedProcess[str]]


def test_a_failed_job_does_not_stop_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    planned = jobs(tmp_path, "one", "fail", "three")
    with pytest.raises(UserError, match=r"1 of 3 jobs failed; see .*fail1/output.log"):
        run_jobs(planned, alone())
    assert [job.state for job in planned] == ["done", "failed", "done"]
    assert [job.score for job in planned] == [53.0, None, 55.0]
    assert "error: it went wrong; see" in caplog.text
    assert "working on fail" in (planned[1].folder / "output.log").read_text()


def test_a_killed_job_is_named_as_such(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    planned = jobs(tmp_path, "kill", "one")
    with pytest.raises(UserError, match=r"1 of 2 jobs failed"):
        run_jobs(planned, alone())
    assert [job.state for job in planned] == ["failed", "done"]
    assert "it was killed by SIGKILL (perhaps memory ran out); see" in caplog.text


def test_a_stopped_job_is_not_done_and_neither_is_one_without_a_result(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    planned = jobs(tmp_path, "term", "nothing", "one")
    with pytest.raises(UserError, match=r"2 of 3 jobs failed"):
        run_jobs(planned, alone())
    assert [job.state for job in planned] == ["stopped", "failed", "done"]
    assert "it was stopped by SIGTERM; see" in caplog.text
    assert "it ended without a result; see" in caplog.text
    with pytest.raises(UserError, match=r"1 of 1 jobs were stopped"):
        run_jobs(jobs(tmp_path, "term"), alone())


def test_two_sweeps_at_once_run_each_job_once(tmp_path: Path, script: Path) -> None:
    whats = ["a", "bb", "ccc", "dddd"]
    code = (
        "import sys; from pathlib import Path; from sts_lightning.sweep.local import Job, Pool, run_jobs\n"
        f"sys.argv = [{str(script)!r}]\n"
        f"folder = Path({str(tmp_path)!r})\n"
        f"run_jobs([Job(n, (f'what={{w}}',), folder / w) for n, w in enumerate({whats!r})], Pool([], 2, 1))"
    )
    sweeps = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) for _ in range(2)]
    for sweep in sweeps:
        _, errors = sweep.communicate(timeout=120)
        assert (sweep.returncode == 0) != (b"RunningElsewhereError" in errors)
    for what in whats:
        assert len((tmp_path / what / "starts").read_text().splitlines()) == 1
        job = Job(0, (), tmp_path / what)
        assert job.read_result()
        assert job.score == 50.0 + len(what)


def test_started_again_it_does_only_what_is_left(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        run_jobs(jobs(tmp_path, "one", "fail"), alone())
    before = (tmp_path / "one0" / "metrics.json").read_bytes()
    again = jobs(tmp_path, "one", "fail", "new")
    with pytest.raises(UserError):
        run_jobs(again, alone())
    assert [job.state for job in again] == ["was done", "failed", "done"]
    assert again[0].score == 53.0
    assert len(starts(again[0])) == 1
    assert len(starts(again[1])) == 2
    assert (tmp_path / "one0" / "metrics.json").read_bytes() == before


def test_as_many_at_a_time_as_there_are_gpus_each_with_its_own_gpu(tmp_path: Path) -> None:
    planned = jobs(tmp_path, *"abcdef")
    for job in planned:
        job.demand = Demand(1)
    run_jobs(planned, Pool(["4", "7"], cores=2))
    begun = [(float(start[2]), start[1]) for job in planned for start in starts(job)]
    assert {gpu for _, gpu in begun} == {"4", "7"}
    for gpu in ("4", "7"):
        own = sorted(moment for moment, name in begun if name == gpu)
        assert all(later - earlier > 0.2 for earlier, later in pairwise(own))


def test_small_jobs_run_beside_each_other_on_a_gpu(tmp_path: Path) -> None:
    planned = jobs(tmp_path, *["wait"] * 5)
    for job in planned:
        job.demand = Demand(1)
    run_jobs(planned, Pool(["4", "7"], cores=2, sharing=2))
    assert {job.state for job in planned} == {"done"}
    begun = sorted((float(start[2]), start[1]) for job in planned for start in starts(job))
    assert sorted(gpu for _, gpu in begun[:4]) == ["4", "4", "7", "7"]
    ended = [job.folder.joinpath("metrics.json").stat().st_mtime for job in planned]
    assert begun[3][0] < min(ended) < begun[4][0]


def test_a_job_that_hangs_is_stopped_and_resumed(tmp_path: Path) -> None:
    planned = jobs(tmp_path, "hang", "one")
    with pytest.raises(UserError, match="1 of 2"):
        run_jobs(planned, alone(), timeout_minutes=0.05)
    assert [job.state for job in planned] == ["timed out", "done"]
    again = jobs(tmp_path, "hang", "one")
    run_jobs(again, alone())
    assert [job.state for job in again] == ["done", "was done"]
    assert [start[0] for start in starts(again[0])] == ["False", "True"]


def test_a_job_that_another_sweep_runs_is_left_to_it(tmp_path: Path) -> None:
    planned = jobs(tmp_path, "one", "two")
    planned[0].folder.mkdir()
    with locked(planned[0].folder), pytest.raises(RunningElsewhereError) as caught:
        run_jobs(planned, alone())
    assert [job.state for job in planned] == ["runs elsewhere", "done"]
    assert not (planned[0].folder / "starts").exists()
    assert caught.value.exit_status == 75
    assert f"1 of 2 jobs run elsewhere: {planned[0].folder} (pid {os.getpid()} on host " in str(caught.value)


def test_a_failed_job_outweighs_one_that_runs_elsewhere(tmp_path: Path) -> None:
    planned = jobs(tmp_path, "one", "fail")
    planned[0].folder.mkdir()
    with locked(planned[0].folder), pytest.raises(FailedJobsError, match="1 of 2 jobs failed"):
        run_jobs(planned, alone())


def test_a_broken_result_is_named_and_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    planned = jobs(tmp_path, "one", "two")
    planned[0].folder.mkdir()
    (planned[0].folder / "metrics.json").write_text("{")
    with pytest.raises(UserError, match="1 of 2 jobs failed"):
        run_jobs(planned, alone())
    assert [job.state for job in planned] == ["failed", "done"]
    assert "one0/metrics.json is broken: " in caplog.text
    assert (planned[0].folder / "metrics.json").read_text() == "{"


@pytest.mark.parametrize(("number", "name"), [(signal.SIGINT, b"Ctrl-C"), (signal.SIGTERM, b"SIGTERM")])
def test_a_stopped_sweep_lets_the_jobs_save_and_leaves_the_rest(
    number: signal.Signals, name: bytes, tmp_path: Path, script: Path
) -> None:
    code = (
        "import signal, sys; from pathlib import Path\n"
        "from sts_lightning.sweep.local import Job, Pool, run_jobs\n"
        "from sts_lightning.core.signals import listening\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's & would have it ignored
        f"sys.argv = [{str(script)!r}]\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "jobs = [Job(n, (f'what={w}',), folder / w) for n, w in enumerate(['hang', 'one'])]\n"
        "with listening(): run_jobs(jobs, Pool([], 2, 1))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, start_new_session=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "hang" / "checkpoints" / "last.ckpt").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    os.kill(process.pid, number)
    _, errors = process.communicate(timeout=30)
    assert b"stopped by " + name + b"; 2 of 2 jobs are left. The same command resumes them." in errors
    assert not (tmp_path / "one").exists()
    assert not (tmp_path / "hang" / "metrics.json").exists()

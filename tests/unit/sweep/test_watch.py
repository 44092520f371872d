"""The loop of a sweep, with jobs that run nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.core.errors import FailedJobsError, UserError
from sts_lightning.sweep.job import Job, State
from sts_lightning.sweep.watch import watch
from tests.unit.sweep.conftest import jobs


class Engine:
    """Notes what it is asked for; a job ends at the second look with the outcome of its name."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def start(self, job: Job) -> Started:
        self.log.append(f"start {job.folder.name}")
        if job.title() == "what=rejected":
            raise UserError("no such partition.")
        return Started(job, self.log)


class Started:
    def __init__(self, job: Job, log: list[str]) -> None:
        self.job, self.log, self.looks = job, log, 0

    def state(self) -> State:
        self.looks += 1
        return "running" if self.looks < 2 or self.job.title() == "what=hang" else "done"

    def result(self) -> Job:
        self.log.append(f"end {self.job.folder.name}")
        if self.job.title() == "what=lost":
            raise UserError("its node failed.")
        return Job(self.job.number, self.job.overrides, self.job.folder, state="done", score=50.0)

    def cancel(self) -> None:
        self.log.append(f"cancel {self.job.folder.name}")


def test_a_job_begins_after_those_that_it_starts_from(tmp_path: Path) -> None:
    after, first, _ = planned = jobs(tmp_path, "after", "first", "free")
    after.needs = (first.folder, tmp_path / "of_an_earlier_sweep")
    engine = Engine()
    watch(planned, engine.start, poll=0)
    assert engine.log == [
        "start first1",
        "start free2",
        "end first1",
        "end free2",
        "start after0",
        "end after0",
    ]
    assert [(job.state, job.score) for job in planned] == [("done", 50.0)] * 3


def test_as_many_jobs_at_a_time_as_asked_for(tmp_path: Path) -> None:
    engine = Engine()
    watch(jobs(tmp_path, "a", "b"), engine.start, at_once=1, poll=0)
    assert engine.log == ["start a0", "end a0", "start b1", "end b1"]


@pytest.mark.parametrize(
    ("what", "problem"), [("rejected", "no such partition"), ("lost", "its node failed")]
)
def test_what_a_cluster_rejects_or_loses_fails_with_what_starts_from_it(
    what: str, problem: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad, skipped, _ = planned = jobs(tmp_path, what, "skipped", "free")
    skipped.needs = (bad.folder,)
    engine = Engine()
    with pytest.raises(FailedJobsError, match="1 of 3 jobs failed; 1 that start from them were not run"):
        watch(planned, engine.start, poll=0)
    assert [job.state for job in planned] == ["failed", "not run", "done"]
    assert bad.problem == problem
    assert f"failed: what={what}\n  {problem}" in caplog.messages
    assert "start skipped1" not in engine.log


def test_ctrl_c_cancels_the_jobs_and_once_more_kills_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupt)
    engine = Engine()
    with pytest.raises(UserError, match="stopped by Ctrl-C; 3 of 3 jobs are left"):
        watch(jobs(tmp_path, "hang", "hang", "two"), engine.start, at_once=2)
    assert engine.log == ["start hang0", "start hang1", *["cancel hang0", "cancel hang1"] * 2]

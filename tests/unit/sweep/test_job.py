"""One job of a sweep: folder, process and result."""

from __future__ import annotations

import hashlib
import json
import signal
from pathlib import Path

import pytest

from sts_lightning.sweep.job import (
    Job,
    Resources,
    _outcome,
    result,
    run_job,
)


@pytest.mark.parametrize(
    ("code", "scored", "state"),
    [
        (0, True, "done"),
        (0, False, "failed"),
        (1, False, "failed"),
        (1, True, "failed"),
        (3, False, "failed"),
        (75, False, "runs elsewhere"),
        (75, True, "runs elsewhere"),
        (130, False, "stopped"),
        (143, False, "stopped"),
        (-signal.SIGTERM, False, "stopped"),
        (128 + signal.SIGUSR1, False, "stopped"),
        (128 + signal.SIGUSR2, False, "stopped"),
        (-signal.SIGKILL, False, "failed"),
        (-signal.SIGSEGV, False, "failed"),
    ],
)
def test_what_an_exit_status_means(code: int, scored: bool, state: str) -> None:
    assert _outcome(code, scored)[0] == state


def test_results_of_runs_stages_and_evaluations(tmp_path: Path) -> None:
    assert result(tmp_path) is None
    (tmp_path / "metrics.json").write_text(json.dumps({"test": {"tasks": {}, "average": 70.5}}))
    assert result(tmp_path) == 70.5
    (tmp_path / "stages.yaml").write_text("first: {seed: 1}\nlast: {seed: 1}\n")
    assert result(tmp_path) is None
    (tmp_path / "last").mkdir()
    (tmp_path / "last" / "metrics.json").write_text(json.dumps({"dev": {"spearman": 80.0}, "test": None}))
    assert result(tmp_path) == 80.0


def finished(folder: Path, file: Path) -> None:
    """Results of a content of a file."""
    digest = hashlib.sha256(hashlib.sha256(file.read_bytes()).hexdigest().encode()).hexdigest()
    folder.mkdir(parents=True)
    content = {"dev": "d", "files": {"path": digest}}
    (folder / "metrics.json").write_text(json.dumps({"dev": {"spearman": 80.0}, "content": content}))
    (folder / "config.yaml").write_text(f"path: {file}\nmodel: {{}}\nprompt: {{}}\nevaluation: {{}}\n")


def test_results_of_another_content_of_a_file_are_no_results(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("old")
    finished(tmp_path / "run", file)
    job, later = Job(0, (), tmp_path / "run"), Job(1, (), tmp_path / "later", needs=(tmp_path / "run",))
    run_job(job, Resources({}))
    assert (job.state, job.score, job.pairs) == ("was done", 80.0, "d")
    file.write_text("new")
    for each in (job, later):
        each.state = "queued"
        run_job(each, Resources({}))
        assert each.state == "failed"
        assert f"{tmp_path / 'run'} has the results of another content of path" in str(each.problem)
        assert "another name=..., or remove the folder" in str(each.problem)
    file.unlink()
    run_job(job, Resources({}))
    assert job.state == "was done"

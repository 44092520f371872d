"""One job of a sweep: folder, process and result."""

from __future__ import annotations

import hashlib
import json
import signal
from pathlib import Path

import pytest

from sts_lightning.sweep.job import Job
from sts_lightning.sweep.local import outcome


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
    assert outcome(code, scored)[0] == state


def test_results_of_runs(tmp_path: Path) -> None:
    job = Job(0, (), tmp_path)
    assert not job.read_result()
    (tmp_path / "metrics.json").write_text(json.dumps({"test": {"tasks": {}, "average": 70.5}}))
    assert job.read_result()
    assert job.score == 70.5
    (tmp_path / "metrics.json").write_text(json.dumps({"dev": {"spearman": 80.0}, "test": None}))
    assert job.read_result()
    assert job.score == 80.0


def finished(folder: Path, file: Path) -> None:
    """Results of a content of a file."""
    digest = hashlib.sha256(hashlib.sha256(file.read_bytes()).hexdigest().encode()).hexdigest()
    folder.mkdir(parents=True)
    content = {"dev": "d", "files": {"path": digest}}
    (folder / "metrics.json").write_text(json.dumps({"dev": {"spearman": 80.0}, "content": content}))
    (folder / "config.yaml").write_text(f"path: {file}\nmodel: {{}}\nprompt: {{}}\nevaluation: {{}}\n")

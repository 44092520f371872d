"""Batch jobs of SLURM, with a script in place of scontrol."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sts_lightning.core.processes import batch_job, requeue, requeued
from sts_lightning.core.signals import PARENT
from sts_lightning.runs.folder import folder_of_command, timed_folder

NAMES = ("SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT")


@pytest.fixture(autouse=True)
def _outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*NAMES, PARENT):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("variables", "job"),
    [
        ({}, None),
        ({"SLURM_JOB_ID": "77"}, "77"),
        ({"SLURM_JOB_ID": "77", "SLURM_JOB_NAME": "train.sh"}, "77"),
        ({"SLURM_JOB_ID": "77", "SLURM_JOB_NAME": "interactive"}, None),
        ({"SLURM_JOB_ID": "77", "SLURM_JOB_NAME": "bash"}, None),
        ({"SLURM_JOB_ID": "79", "SLURM_ARRAY_JOB_ID": "77", "SLURM_ARRAY_TASK_ID": "2"}, "77_2"),
        ({"SLURM_JOB_ID": "77", PARENT: "1"}, None),
    ],
)
def test_the_number_of_a_batch_job(
    variables: dict[str, str], job: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert batch_job() == job
    assert not requeued()
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert requeued() == (job is not None)


def test_a_requeued_command_finds_its_folder_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def folder(seed: int = 1) -> Path:
        return Path(folder_of_command(str(tmp_path), [f"seed={seed}"]))

    assert len(folder().name) == len("2026-01-31_12-00-00")
    (made,) = tmp_path.iterdir()
    made.rmdir()
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    first = folder()
    assert first.name.startswith("slurm-77-")
    assert folder(seed=2) != first
    first.mkdir()
    assert folder() == first  # it has not finished
    (first / "metrics.json").touch()
    monkeypatch.setenv("SLURM_RESTART_COUNT", "3")
    assert folder() == first  # it finished before the job was requeued
    monkeypatch.setenv("SLURM_RESTART_COUNT", "0")
    second = folder()
    assert second == first.with_name(f"{first.name}-2")
    second.mkdir()
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert folder() == second  # left unfinished
    (second / "metrics.json").touch()
    assert folder() == second
    monkeypatch.delenv("SLURM_RESTART_COUNT")
    assert folder().name == f"{first.name}-3"


def test_commands_of_one_second_have_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.strftime", lambda text: "noon")
    parent = str(tmp_path / "runs")
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(timed_folder, [parent] * 20))
    assert sorted(made) == sorted(f"{parent}/noon{'' if n == 1 else f'-{n}'}" for n in range(1, 21))
    assert all(Path(folder).is_dir() for folder in made)
    assert timed_folder(parent, claim=False) == f"{parent}/noon"
    (tmp_path / "file").touch()
    assert timed_folder(f"{tmp_path}/file/x") == f"{tmp_path}/file/x/noon"  # Hydra says what is wrong


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the stand-in of scontrol was told."""
    script = tmp_path / "scontrol"
    script.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/orders\n[ "$2" != 13 ] || {{ echo no such job >&2; exit 1; }}\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path / "orders"


def test_an_announced_time_limit_queues_the_job_again(orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert requeue(signal.SIGUSR1) is None  # outside SLURM
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    for number in (signal.SIGTERM, signal.SIGINT):  # scancel, a preemption and the user
        assert requeue(number) is None
    assert not orders.exists()
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        message = requeue(number)
        assert message is not None
        assert "77 is queued again" in message
    assert orders.read_text() == "requeue 77\n" * 2


def test_a_failure_is_told(orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "13")
    assert requeue(signal.SIGUSR1) == "scontrol requeue 13 failed: no such job"
    monkeypatch.setenv("PATH", "")
    message = requeue(signal.SIGUSR1)
    assert message is not None
    assert message.startswith("scontrol requeue 13 failed: ")

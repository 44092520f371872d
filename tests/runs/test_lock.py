"""The lock of a run folder."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sts_lightning.core import files
from sts_lightning.core.errors import RunningElsewhereError, UntrustedError
from sts_lightning.runs.lock import LOCK, is_first_process, locked

HOLD = """
import sys, time
from pathlib import Path
from sts_lightning.runs.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_one_process_at_a_time_and_sigkill_frees_the_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(run)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    try:
        holder = rf"another process is running in .*run \(pid {process.pid} on host {socket.gethostname()}\)"
        with pytest.raises(RunningElsewhereError, match=holder), locked(run):
            pass
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert (run / LOCK).is_file()
    with locked(run):
        assert (run / LOCK).read_text() == f"pid {os.getpid()} on host {socket.gethostname()}\n"


def test_a_program_that_the_holder_starts_does_not_keep_the_lock(tmp_path: Path) -> None:
    with locked(tmp_path):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with locked(tmp_path):
            pass
    finally:
        child.communicate(b"\n")


def test_a_lock_file_left_behind_means_nothing(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("pid 1 on host elsewhere\n")
    with locked(tmp_path):
        (tmp_path / "result").touch()
    assert sorted(path.name for path in tmp_path.iterdir()) == [LOCK, "result"]


def test_a_folder_in_which_nothing_was_written_is_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "found").mkdir()
    for name in ("found", "made"):
        with locked(tmp_path / name):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["found"]
    assert list((tmp_path / "found").iterdir()) == []


def test_a_file_system_without_locks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Unsupported(files.FileLock):  # type: ignore[misc]
        def acquire(self, *args: object, **kwargs: object) -> None:  # type: ignore[override]
            raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(files, "FileLock", Unsupported)
    with locked(tmp_path):
        (tmp_path / "result").touch()
    assert f"{tmp_path}: no locks on this file system" in caplog.text


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    run.mkdir()
    elsewhere.write_text("theirs")
    (run / LOCK).symlink_to(elsewhere)
    with pytest.raises(UntrustedError, match=r"run/\.lock is a link"), locked(run):
        pass
    assert elsewhere.read_text() == "theirs"


@pytest.mark.parametrize(
    ("variables", "first"),
    [
        ({}, True),
        ({"LOCAL_RANK": "0", "NODE_RANK": "0"}, True),
        ({"LOCAL_RANK": "1"}, False),
        ({"NODE_RANK": "1"}, False),
        ({"SLURM_PROCID": "3"}, False),
        ({"RANK": "8", "LOCAL_RANK": "0"}, False),
        ({"RANK": "0", "SLURM_PROCID": "3"}, True),
    ],
)
def test_first_of_several_processes(
    variables: dict[str, str], first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_first_process() is first

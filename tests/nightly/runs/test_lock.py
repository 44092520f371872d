"""The lock of a run folder."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sts_lightning.core.errors import RunningElsewhereError
from sts_lightning.runs.lock import LOCK, locked

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

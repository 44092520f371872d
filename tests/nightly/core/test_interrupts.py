"""Signals as exceptions."""

from __future__ import annotations

import signal
import subprocess
import sys


def test_ctrl_c_while_the_process_cleans_up_shows_no_stack_trace() -> None:
    script = (
        "import atexit, signal; from sts_lightning.core import signals\n"
        "atexit.register(signal.raise_signal, signal.SIGINT)  # as a library's clean-up\n"
        "with signals.listening():\n"
        "    pass\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, "")

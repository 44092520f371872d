"""Tests that neither train nor start a process."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _neither_trains_nor_starts_an_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold the tests of this folder to it."""

    def forbidden(*args: Any, **settings: Any) -> None:
        pytest.fail("this test trains or starts an interpreter: it belongs in tests/nightly or tests/runs")

    popen = subprocess.Popen.__init__

    def start(process: Any, command: Any, *args: Any, **settings: Any) -> None:
        first = command if isinstance(command, str) else str(command[0])
        (forbidden if first == sys.executable else popen)(process, command, *args, **settings)

    monkeypatch.setattr(subprocess.Popen, "__init__", start)
    monkeypatch.setattr(multiprocessing.get_context("spawn").Process, "start", forbidden)
    if "lightning.pytorch" in sys.modules:
        monkeypatch.setattr("lightning.pytorch.Trainer.fit", forbidden)

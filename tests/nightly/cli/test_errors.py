"""What a command says and returns when it ends early."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def without_reader(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    reading, writing = os.pipe()
    os.close(reading)
    program = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(program, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    return done


PRINT = """
from rich.console import Console
from sts_lightning.cli.errors import reporting
with reporting(traces=False):
"""


@pytest.mark.parametrize("text", ["print('little')", "print('much' * 100_000)", "Console().print('a table')"])
def test_a_reader_that_ends_first(text: str) -> None:
    """As in `| head`: no stack trace."""
    done = without_reader(PRINT + f"    {text}\n")
    assert (done.returncode, done.stderr) == (1, "")


LOG = """
import logging, sys
from sts_lightning.cli.errors import reporting
with reporting(traces=False):
    logging.basicConfig(level=logging.INFO, stream=sys.stdout)
    for number in range(3):
        logging.info("step %d", number)
    open(sys.argv[1], "w").close()
"""


def test_a_run_goes_on_without_the_reader_of_its_log(tmp_path: Path) -> None:
    done = without_reader(LOG, str(tmp_path / "results"))
    assert (tmp_path / "results").is_file()
    assert done.stderr == ""

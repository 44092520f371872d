"""The program `sts-lightning` itself."""

from __future__ import annotations

import subprocess
import sys

from sts_lightning.cli.main import COMMANDS

PROGRAM = """
import sys
from sts_lightning.cli.main import main
try:
    main(["--help"])
except SystemExit as error:
    assert error.code == 0
loaded = {"torch", "datasets", "hydra", "numpy", "transformers"} & set(sys.modules)
assert not loaded, loaded
"""


def test_help_names_every_command_and_imports_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    first_words = [line.split()[0] for line in done.stdout.splitlines() if line.strip()]
    assert {command.__name__.rpartition(".")[2] for command in COMMANDS} <= set(first_words)

"""The program `sts-lightning` itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sts_lightning.cli.main import COMMANDS, REPRODUCE, RUNS

HELP = """
import sys
from sts_lightning.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as error:
    assert error.code == 0
loaded = {"torch", "datasets", "hydra", "numpy", "transformers"} & set(sys.modules)
assert not loaded, loaded
"""


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(["--help"], COMMANDS), (["runs", "--help"], RUNS), (["reproduce", "--help"], REPRODUCE)],
)
def test_help_names_every_command_and_imports_none(arguments: list[str], named: dict[str, object]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HELP, *arguments], capture_output=True, text=True, check=True
    )
    listed = done.stdout.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in listed if line[2] != " "] == [*named]

"""What CONTRIBUTING.md says is enough to add something: its own files, added to a copy of the checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

FILE = re.compile(r"^```\w+\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHOICES = "tests/nightly/conf/test_files.py"

CONTRACTS = {
    "loss": ["tests/unit/losses", "tests/unit/workflows/test_preflight.py", CHOICES],
    "data set": ["tests/unit/training/test_assembly.py", "tests/unit/workflows/test_preflight.py", CHOICES],
    "model": ["tests/unit/conf/test_files.py", CHOICES],
    "regularizer": ["tests/unit/regularizers", CHOICES],
    "logger": ["tests/unit/conf/test_files.py", CHOICES],
    "table": ["tests/unit/reproduce", "tests/unit/repository/test_state_of_tables.py"],
}
"""Tests that hold for everything of a sort, and so for what is added."""


def files(what: str) -> dict[str, str]:
    """Return the texts of the section by their paths."""
    section = (ROOT / "CONTRIBUTING.md").read_text().partition(f"## Add a {what}\n")[2].partition("\n## ")[0]
    return dict(FILE.findall(section))


@pytest.mark.parametrize("what", CONTRACTS)
def test_the_files_of_a_section_are_enough(what: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("src", "conf", "docs", "tests", "tools"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (*ROOT.glob("*.py"), *ROOT.glob("*.toml"), *ROOT.glob("*.md"), ROOT / "Makefile"):
        shutil.copy(file, copy)
    added = files(what)
    assert added
    for name, text in added.items():
        assert not (copy / name).exists()
        (copy / name).write_text(text)
    environment = os.environ | {"PYTHONPATH": str(copy / "src"), "OMP_NUM_THREADS": "1"}
    own = [name for name in added if name.startswith("tests/")]
    commands = [["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *own, *CONTRACTS[what]]]
    if what == "table":
        commands.append(["-m", "sts_lightning.cli.main", "reproduce", "plan", Path(*added).stem])
    for command in commands:
        done = subprocess.run(
            [sys.executable, *command], cwd=copy, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

"""Commands that the targets of the Makefile run."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT


def commands(target: str, venv: Path) -> str:
    if shutil.which("make") is None:
        pytest.skip("needs make")
    arguments = ["make", "-n", "--no-print-directory", target, f"VENV={venv}"]
    # The tests may run under make themselves, whose variables would reach this one.
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(arguments, cwd=ROOT, env=own, capture_output=True, text=True, check=True).stdout


def test_the_demo_installs_no_development_tools(tmp_path: Path) -> None:
    output = commands("demo", tmp_path / "venv")
    assert "-e '.[offline]'" in output
    assert "dev]" not in output
    assert output.rstrip().endswith("train.py experiment=demo")


def test_the_tests_install_them_after_the_demo(tmp_path: Path) -> None:
    output = commands("test", tmp_path / "venv")
    assert output.index("-e '.[offline]'") < output.index("-e '.[offline,dev]'")
    assert "tests/runs tests/unit" in output

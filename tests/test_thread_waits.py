"""Waits of threads, as GNU's OpenMP reports its settings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sts_lightning.thread_waits import SPINS, TURNS, shorten_waits
from tests.conftest import ROOT, SHORT_RUN

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="torch computes with another OpenMP")


def turns(*command: str, **given: str) -> str:
    clean = {name: value for name, value in os.environ.items() if name not in (SPINS, "OMP_WAIT_POLICY")}
    environment = clean | given | {"OMP_DISPLAY_ENV": "verbose"}
    done = subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, check=True
    )
    found = re.search(rf"{SPINS} = '(\w+)'", done.stderr)
    assert found is not None, done.stderr
    return found[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, str(TURNS)), ({SPINS: "77"}, "77"), ({"OMP_WAIT_POLICY": "passive"}, "0")],
)
def test_torch_is_loaded_with_it_unless_the_user_chose(given: dict[str, str], expected: str) -> None:
    code = "from sts_lightning.thread_waits import shorten_waits; shorten_waits(); import torch"
    assert turns("-c", code, **given) == expected


@pytest.mark.slow
def test_commands_set_it_before_torch_is_loaded(tmp_path: Path) -> None:
    how = [*SHORT_RUN, "trainer.max_steps=1", "evaluation.final=false"]
    assert turns(str(ROOT / "train.py"), *how, f"hydra.run.dir={tmp_path}") == str(TURNS)
    assert turns("-m", "sts_lightning.cli.main", "plan", *how) == str(TURNS)


def test_it_is_set_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SPINS, "1")  # so that it is as before afterwards
    monkeypatch.delenv(SPINS)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    shorten_waits()
    assert os.environ[SPINS] == str(TURNS)

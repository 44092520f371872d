"""Launchers of `-m`."""

from __future__ import annotations

from tests.conftest import SHORT_RUN
from tests.runs.test_sweep import Cli


def test_a_number_that_would_wait_forever_is_named(cli: Cli) -> None:
    done = cli("train.py", "-m", *SHORT_RUN, "seed=1,2", "hydra.launcher.jobs=-1")
    assert done.returncode == 1
    assert "jobs Input should be greater than 0" in done.stderr.splitlines()[-1]


def test_a_plan_names_a_setting_that_nothing_reads(cli: Cli) -> None:
    done = cli("train.py", "-m", *SHORT_RUN, "+optim.lrr=1e-3,1e-2", "--plan")
    assert done.returncode == 1
    assert "optim.lrr: no such setting. Did you mean optim.lr?" in done.stderr

"""A small table from specification to report, through the command line."""

from __future__ import annotations

import pytest

from sts_lightning.reproduce.plan import Table
from sts_lightning.reproduce.run import open_launcher, run_table
from sts_lightning.reproduce.spec import Preparation
from sts_lightning.runs.folder import RunFolder
from tests.conftest import ROOT
from tests.runs.test_reproduce import cell, make
from tests.runs.test_reproduce import outcome as outcome
from tests.runs.test_reproduce import table as table
from tests.unit.sweep.conftest import slurm as slurm


@pytest.mark.usefixtures("slurm")
def test_on_a_cluster(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """With submitit's processes in place of SLURM's; a preparation, then what starts from it."""
    monkeypatch.chdir(ROOT)
    other = make(table.root)
    overrides = other.spec.before["head"].overrides
    other.spec.before["head"] = Preparation([*overrides[:-1], "trainer.max_steps=2"])
    other.cells = [cell("mse")]
    settings = ["timeout_minutes=5", "cpus_per_job=1"]
    assert run_table(other, open_launcher(other, "slurm", settings))
    (run,) = other.seed_runs(cell("mse"))
    assert run.after is not None
    assert (run.after / "metrics.json").is_file()
    assert RunFolder(run.folder).load_config().init_from == str(run.after)
    assert (table.root / ".submitit").is_dir()

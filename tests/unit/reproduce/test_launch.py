"""Launchers of sweeps for the runs of a table."""

from __future__ import annotations

from typing import Any

import pytest

from sts_lightning.core.errors import ConfigError
from sts_lightning.reproduce.plan import Table
from sts_lightning.reproduce.run import open_launcher


def test_settings_reach_the_launcher(table: Table) -> None:
    run: Any = open_launcher(table, "process", ["jobs=3"])
    assert type(run.__self__).__name__ == "ProcessLauncher"
    assert (run.__self__.jobs, run.__self__.gpus_per_job) == (3, None)
    run = open_launcher(table, "slurm", ["partition=gpu", "jobs=2"])
    slurm = run.__self__
    assert slurm.parameters["slurm_partition"] == "gpu"
    assert slurm.parameters["slurm_array_parallelism"] == 2
    assert slurm.config.hydra.sweep.dir == str(table.root)


@pytest.mark.parametrize(
    ("name", "setting", "named"),
    [
        (
            "slurm",
            "partitoin=gpu",
            "Did you mean hydra.launcher.partition?",
        ),
        ("process", "jobs", "--launcher process: "),
        ("lsf", "jobs=1", "--launcher lsf: "),
        ("process", "jobs=1.5", "jobs must be a whole number above 0"),
    ],
)
def test_what_does_not_exist_is_named(name: str, setting: str, named: str, table: Table) -> None:
    with pytest.raises(ConfigError) as caught:
        open_launcher(table, name, [setting])
    assert named in str(caught.value)

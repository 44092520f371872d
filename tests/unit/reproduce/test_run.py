"""Listing, planning and starting tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig

from sts_lightning.core.errors import ConfigError, FailedJobsError, UserError
from sts_lightning.planning import cost
from sts_lightning.reproduce import run
from sts_lightning.reproduce.run import list_tables, open_launcher, print_plan, reproduce
from sts_lightning.reproduce.table import Row, Table
from sts_lightning.sweep.job import Job
from tests.unit.reproduce.conftest import finish, folders

Capture = pytest.CaptureFixture[str]


def test_settings_reach_the_launcher(table: Table) -> None:
    started: Any = open_launcher(table, "process", ["jobs=3"])
    assert type(started.__self__).__name__ == "ProcessLauncher"
    assert (started.__self__.jobs, started.__self__.gpus_per_job) == (3, None)
    slurm: Any = open_launcher(table, "slurm", ["partition=gpu"])
    assert slurm.__self__.config.hydra.sweep.dir == str(table.root)
    assert slurm.__self__.config.hydra.launcher.partition == "gpu"


@pytest.mark.parametrize(
    ("name", "setting", "named"),
    [
        ("slurm", "partitoin=gpu", "Did you mean hydra.launcher.partition?"),
        ("process", "jobs", "--launcher process: "),
        ("lsf", "jobs=1", "--launcher lsf: "),
        ("process", "jobs=1.5", "jobs"),
    ],
)
def test_what_does_not_exist_is_named(name: str, setting: str, named: str, table: Table) -> None:
    with pytest.raises(ConfigError) as caught:
        open_launcher(table, name, [setting])
    assert named in str(caught.value)


def test_tables_are_listed(capsys: Capture) -> None:
    list_tables()
    listed = capsys.readouterr().out
    models = "opt6_7b, llama7b, llama2_7b, mistral7b, nomic_v1, jina_v2"
    assert f"86 runs of {models}; each: 1 GPU with 24 GB, up to 6 h" in listed
    assert " runs: SimCSE; PromptBERT; PromCSE; SimCSE, no template; PromptEOL; " in listed
    assert "cited: openai-ada-002 (a service, whose model is not public)" in listed
    assert "(minilm, smollm2_135m)" in listed


def test_a_plan_has_each_run_and_the_cost_of_each_row(
    table: Table, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    seconds = {"CoSENTLoss": 7200.0, "PearsonLoss": 360.0, "MSELoss": 3600.0}

    def plans(runs: Any, card: str | None) -> list[Any]:
        assert card == "h100"
        of: dict[str, DictConfig] = dict(runs)
        names = [cfg.loss._target_.split(".")[-1] for cfg in of.values()]
        assert names == list(seconds)  # once for both seeds
        return [cost.Cost(*[None] * 9, seconds[name], ()) for name in names]  # type: ignore[arg-type]

    monkeypatch.setattr(cost, "print_costs", plans)
    for seed, folder in enumerate(folders(table, "plain"), 1):
        finish(folder, 1.0, seed)
    print_plan(table, 2, "h100")
    printed = capsys.readouterr().out
    assert (printed.count("\nnew "), printed.count("done ")) == (5, 2)
    hours = (2 * 360 + 2 * 3600) / 3600 / 2
    assert f"7 runs, 5 left; trainings: about {hours:.1f} hours, 2 at a time. Each needs: no GPU" in printed


@pytest.fixture
def runs_of_the_launcher(table: Table, monkeypatch: pytest.MonkeyPatch) -> list[list[Job]]:
    """Lists of jobs that a launcher was given; it finishes all but those of one row."""
    given: list[list[Job]] = []

    def run_jobs(jobs: list[Job]) -> None:
        given.append(jobs)
        for job in jobs:
            if "loss=mse" not in job.overrides:
                finish(job.run_folder, 1.0, 1)
        if any("loss=mse" in job.overrides for job in jobs):
            raise FailedJobsError("2 jobs failed.")

    monkeypatch.setattr(run, "open_launcher", lambda *_: run_jobs)
    return given


def test_what_is_left_is_run_and_reported(
    table: Table, runs_of_the_launcher: list[list[Job]], capsys: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        with pytest.raises(UserError, match="some runs have not finished"):
            reproduce(table, "process", [], 20)
    assert [len(jobs) for jobs in runs_of_the_launcher] == [7, 2]
    assert "| plain | here |" in capsys.readouterr().out
    assert "2 jobs failed." in caplog.messages
    del table.spec.rows["absent"]
    smaller = Table("toy", table.spec, table.root)
    reproduce(smaller, "process", [], 20)
    assert len(runs_of_the_launcher[-1]) == 0


def test_a_table_of_gpus_is_not_begun_without(
    table: Table, runs_of_the_launcher: list[list[Job]], tmp_path: Path
) -> None:
    table.spec.needs = "1 GPU with 24 GB, up to 6 h"
    table.spec.overrides = ["trainer=gpu"]
    with pytest.raises(ConfigError, match="needs 1 GPU with 24 GB, up to 6 h, and no GPU is visible"):
        reproduce(table, "process", [], 20)
    assert not runs_of_the_launcher
    table.spec.rows, table.spec.overrides = {"plain": Row(["loss=cosent"])}, []
    reproduce(Table("toy", table.spec, tmp_path, "minilm"), "process", [], 20)  # its rows need none

"""Runs that the jobs of a sweep start from: planned once, trained once, and what happens if one fails."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from sts_lightning.config.folders import VARIABLE
from sts_lightning.core.errors import ConfigError, FailedJobsError
from sts_lightning.planning import cost as costs
from sts_lightning.runs.folder import RunFolder
from sts_lightning.sweep.gpu_pool import Pool
from sts_lightning.sweep.grid import Grid
from sts_lightning.sweep.job import Demand, Job
from sts_lightning.sweep.local import run_jobs
from sts_lightning.sweep.plan import print_plan
from tests.conftest import CONF
from tests.support.two_runs import write_experiments
from tests.unit.sweep.conftest import jobs, starts

Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Grid]:
    """An empty grid whose jobs lie in a temporary folder, beside a user's configuration."""
    write_experiments(tmp_path / "conf")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "conf"))
    with initialize_config_dir(str(CONF), version_base="1.3"):

        def job(overrides: list[str], _: int) -> DictConfig:
            folder = f"hydra.sweep.dir={tmp_path}"
            return compose("train", [*overrides, folder], return_hydra_config=True)

        yield Grid(job)


def starting(tmp_path: Path, *whats: str, first: str = "one") -> list[Job]:
    """A first run, and the jobs that need it."""
    need = Job(0, (f"what={first}",), tmp_path / "first", first=True)
    rest = jobs(tmp_path, *whats)
    for job in rest:
        job.needs = (need.folder,)
    return [need, *rest]


PCC = ["experiment=pcc", "model=mistral7b"]


def test_the_papers_grid_has_three_first_runs_and_nine_second_ones(
    grid: Grid, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cost(cfg: DictConfig, *_: object) -> costs.Cost:
        return costs.Cost(costs.CARDS["h100"], 0, 0, 0, 0, cfg.data.batch_size, False, 1, 1, None, ())

    monkeypatch.setattr(costs, "cost_of", cost)
    for prompt in ("eol", "sth", "sum"):
        for number, size in enumerate((192, 200, 216)):
            grid.add(number, [*PCC, f"prompt={prompt}", f"data.batch_size={size}"])
    planned = grid.composed_jobs()
    assert [one.job.first for one in planned] == [True] * 3 + [False] * 9
    assert [one.cfg.name for one in planned] == ["pcc_stage1"] * 3 + ["pcc"] * 9
    by_need = dict.fromkeys((one.job.folder for one in planned[:3]), 0)
    for one in planned[3:]:
        (need,) = one.job.needs
        by_need[need] += 1
        assert one.cfg.init_from == str(need)
        assert one.job.demand == Demand(1, required=True)
    assert list(by_need.values()) == [3, 3, 3]
    assert len({one.job.folder for one in planned}) == 12
    print_plan(planned)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("  experiment=pcc_stage1 prompt=eol (1 GPU)")
    sizes = [line.partition("micro batch ")[2].partition(",")[0] for line in lines[7:12:2]]
    assert sizes == ["192", "200", "216"]
    assert lines[-1] == "12 jobs: 12 new. Nothing was started."
    assert "(1 GPU, starts from " in lines[6]


@pytest.mark.parametrize("order", [("pcc_stage1", "pcc"), ("pcc", "pcc_stage1")])
def test_a_first_run_that_is_asked_for_is_one_job(order: tuple[str, str], grid: Grid) -> None:
    asked = {name: grid.add(0, ["model=mistral7b", f"experiment={name}"]) for name in order}
    assert [one.job for one in grid.composed_jobs()] == [asked["pcc_stage1"], asked["pcc"]]
    assert asked["pcc"].needs == (asked["pcc_stage1"].folder,)
    assert not any(job.first for job in asked.values())


def test_a_chain_of_three(grid: Grid, tmp_path: Path) -> None:
    three = "# @package _global_\ndefaults: [two]\nname: three\ninit_from: experiment:two\n"
    write_experiments(tmp_path / "conf", three=three)
    job = grid.add(0, ["experiment=three", "model=tiny_bert"])
    planned = grid.composed_jobs()
    assert [one.cfg.name for one in planned] == ["one", "two", "three"]
    assert [one.job.needs for one in planned] == [(), job.needs[:1], job.needs]
    finished(planned[0].job.folder)
    assert [each.folder for each in grid.to_run()] == [job.needs[1], job.folder]
    finished(job.folder)  # nothing else is trained for it
    again = Grid(grid.compose_job)
    again.add(0, ["experiment=three", "model=tiny_bert"])
    assert [one.cfg.name for one in again.composed_jobs()] == ["three"]


def finished(folder: Path) -> None:
    folder.mkdir(parents=True)
    RunFolder(folder).config_file.write_text("name: x\n")
    RunFolder(folder).metrics_file.touch()


def test_a_mistake_names_the_job(grid: Grid) -> None:
    with pytest.raises(
        ConfigError, match=r"job .*schedule=step: Input should be"
    ):  # before the first run trains
        grid.add(0, [*PCC, "prompt=eol", "optim.schedule=step"])
    with pytest.raises(Exception, match=r"job .*max_epoch=2: trainer\.max_epoch: no such ") as caught:
        grid.add(0, [*PCC, "prompt=eol", "trainer.max_epoch=2"])
    assert caught.value.key == "trainer.max_epoch"  # type: ignore[attr-defined]
    assert not grid.jobs


def test_a_first_run_trains_once(tmp_path: Path) -> None:
    planned = starting(tmp_path, "a", "b")
    run_jobs(planned, Pool([], cores=4, limit=2))
    assert [job.state for job in planned] == ["done"] * 3
    ends = (planned[0].folder / "metrics.json").stat().st_mtime
    assert all(float(starts(job)[0][-1]) > ends for job in planned[1:])


def test_a_failed_first_run_fails_the_jobs_that_need_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    planned = [*starting(tmp_path, "a", "b", first="fail"), *jobs(tmp_path, "free")]
    with pytest.raises(FailedJobsError, match=r"1 of 4 jobs failed; 2 that start from them were not run"):
        run_jobs(planned, Pool([], cores=2, limit=1))
    assert [job.state for job in planned] == ["failed", "not run", "not run", "done"]
    assert caplog.text.count("error: it went wrong; see") == 1
    assert not planned[1].folder.exists()


def test_edited_data_are_trained_in_another_folder(grid: Grid, tmp_path: Path) -> None:
    """Also the run that starts from it; while what leaves the result as it is keeps the folder."""
    mine = tmp_path / "mine.csv"
    alone = [f"path={mine}", "data=pairs_file", "seed=1"]
    first = f"# @package _global_\ndefaults: [override /data: pairs_file]\nname: first\npath: {mine}\n"
    write_experiments(tmp_path / "conf", first=first)
    both = ["data=toy", "model=tiny_bert", "init_from=experiment:first"]

    def folders(*more: str) -> list[Path]:
        grid.jobs.clear()
        grid.add(0, [*alone, *more])
        grid.add(1, both)
        return list(grid.jobs)

    mine.write_text("a")
    before = folders()
    assert folders("trainer.micro_batch_size=8", "logger=csv") == before
    mine.write_text("b")
    after = folders()
    assert len(after) == len(before) == 3
    assert not {*after} & {*before}


def test_settings_outside_the_identity_have_one_value(grid: Grid, tmp_path: Path) -> None:
    grid.add(0, ["seed=1", f"data_root={tmp_path}"])
    grid.add(1, ["seed=1", f"data_root={tmp_path}"])
    with pytest.raises(ConfigError, match="data_root has two values in the sweep") as caught:
        grid.add(2, ["seed=1", "data_root=elsewhere"])
    assert caught.value.key == "data_root"
    with pytest.raises(
        ConfigError, match=r"trainer\.micro_batch_size has two values in the sweep, None and 8"
    ):
        grid.add(3, ["seed=1", f"data_root={tmp_path}", "trainer.micro_batch_size=8"])
    grid.add(4, ["seed=2", "logger=wandb"])
    grid.add(5, ["seed=2", "logger=wandb"])

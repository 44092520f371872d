"""Stages that the jobs of a sweep share: planned once, trained once, and what happens if one fails."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.compose import job_config
from sts_lightning.config.options import Options, using
from sts_lightning.core.errors import ConfigError, FailedJobsError
from sts_lightning.planning import plan
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.lock import locked
from sts_lightning.sweep import cluster
from sts_lightning.sweep.cluster import Handle, submit_to_slurm, watch
from sts_lightning.sweep.gpu_pool import Pool, largest
from sts_lightning.sweep.grid import Grid
from sts_lightning.sweep.job import Demand, Job
from sts_lightning.sweep.job_list import print_plan, print_run
from sts_lightning.sweep.local import run_jobs
from tests.conftest import CONF, SHORT_RUN
from tests.unit.sweep.conftest import jobs, starts

Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[Grid]:
    """An empty grid whose jobs lie in a temporary folder."""
    with initialize_config_dir(str(CONF), version_base="1.3"):

        def job(overrides: list[str], _: int) -> DictConfig:
            folder = f"hydra.sweep.dir={tmp_path}"
            return compose("train", [*overrides, folder], return_hydra_config=True)

        yield Grid(job)


def staged(tmp_path: Path, *whats: str, stage: str = "one") -> list[Job]:
    """A stage, and the jobs that need it."""
    first = Job(0, (f"what={stage}",), tmp_path / "stages" / "first", stage="first")
    rest = jobs(tmp_path, *whats)
    for job in rest:
        job.needs = (first.folder,)
    return [first, *rest]


PCC = ["experiment=pcc", "model=mistral7b"]


def test_the_papers_grid_has_three_first_stages_and_nine_second_ones(
    grid: Grid, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cost(cfg: DictConfig, *_: object) -> plan.Plan:
        return plan.Plan(plan.CARDS["h100"], 0, 0, 0, 0, cfg.data.batch_size, False, 1, 1, None, ())

    monkeypatch.setattr(plan, "plan", cost)
    for prompt in ("eol", "sth", "sum"):
        for number, size in enumerate((192, 200, 216)):
            grid.add(number, [*PCC, f"prompt={prompt}", f"+stages.stage2.data.batch_size={size}"])
    planned = grid.composed_jobs()
    assert [one.job.stage for one in planned] == ["stage1"] * 3 + [None] * 9
    by_need = dict.fromkeys(grid.stages, 0)
    for one in planned[3:]:
        (need,) = one.job.needs
        by_need[need] += 1
        assert list(one.configs) == ["stage2"]
        assert one.job.demand == Demand(1, required=True)
    assert list(by_need.values()) == [3, 3, 3]
    assert len({one.job.folder for one in planned}) == 12
    print_plan(planned, lambda run, cfg: None)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("  stage1 of prompt=eol (1 GPU)")
    sizes = [line.partition("micro batch ")[2].partition(",")[0] for line in lines[7:12:2]]
    assert sizes == ["192", "200", "216"]
    assert lines[-1] == "3 shared stages, 9 jobs: 12 new. Nothing was started."
    print_plan(planned[3:4], lambda run, cfg: None, jobs_per_gpu=4)
    assert "(1 GPU, 4 jobs on each, starts from " in capsys.readouterr().out


def test_what_makes_two_stages_the_same(grid: Grid) -> None:
    def stage(*overrides: str) -> Path:
        (need,) = grid.add(0, [*PCC, "prompt=eol", *overrides]).needs
        return need

    same = stage()
    assert same.parent.name == "stages"
    assert stage("name=other", "data_root=elsewhere") == same
    assert stage("+stages.stage2.optim.lr=1e-5") == same
    for other in ("seed=2", "+stages.stage1.optim.lr=1e-5", "optim.lr=1e-5", "data.batch_size=8"):
        assert stage(other) != same
    with using(Options(trust=True, share_stages=False)):
        job = grid.add(0, [*PCC, "prompt=eol", "seed=3"])
    assert job.needs == ()
    assert job.added == ("trust=true", "--no-share-stages")


def test_a_stage_is_a_chain_of_what_came_before(grid: Grid) -> None:
    three = [
        *SHORT_RUN,
        "name=three",
        *(f"+stages.{name}.experiment=stage2" for name in ("one", "two", "three")),
        "+stages.two.seed=7",
    ]
    first = grid.add(0, three).needs
    second = grid.add(0, [*three, "+stages.one.optim.lr=1e-5"]).needs
    third = grid.add(0, [*three, "+stages.three.optim.lr=1e-5"]).needs
    assert [path.name.partition("-")[0] for path in first] == ["one", "two"]
    assert not set(first) & set(second)  # the second stage starts from another first one
    assert third == first
    assert [stage.job.needs for stage in grid.stages.values()] == [(), first[:1], (), second[:1]]


def test_a_job_that_began_with_stages_of_its_own_keeps_them(grid: Grid) -> None:
    overrides = [*PCC, "prompt=eol"]
    (need,) = grid.add(0, overrides).needs
    (job,) = (one.job for one in grid.jobs.values())
    run = RunFolder(job.folder)
    again = Grid(grid.compose_job)
    for folder in (run, run.stage("stage1"), run.stage("stage1").checkpoints):
        folder = folder if isinstance(folder, Path) else folder.path
        folder.mkdir(parents=True)
    run.save_stages({"stage1": OmegaConf.create({"seed": 1}), "stage2": OmegaConf.create({"seed": 1})})
    run.stage("stage1").checkpoint("last").touch()
    assert run.resumable
    assert again.add(0, overrides).needs == ()
    assert print_run(job.run_folder, "") == "resumable"
    run.save_stages(
        {"stage1": OmegaConf.create({"seed": 1}), "stage2": OmegaConf.create({"seed": 1})},
        {"stage1": need.name},
    )
    (need / "checkpoints").mkdir(parents=True)
    RunFolder(need).checkpoint("last").touch()
    assert Grid(grid.compose_job).add(0, overrides).needs == (need,)
    with locked(job.folder):
        assert print_run(job.run_folder, "") == "running"


def test_a_mistake_names_the_job(grid: Grid) -> None:
    with pytest.raises(
        Exception, match=r"job .*max_epoch=2: stages\.stage2\.trainer\.max_epoch: no such "
    ) as caught:
        grid.add(0, [*PCC, "prompt=eol", "+stages.stage2.trainer.max_epoch=2"])
    assert caught.value.key == "stages.stage2.trainer.max_epoch"  # type: ignore[attr-defined]
    assert not grid.jobs


def test_a_stage_runs_first_and_once(tmp_path: Path) -> None:
    planned = staged(tmp_path, "a", "b")
    run_jobs(planned, Pool([], cores=4, limit=2))
    assert [job.state for job in planned] == ["done"] * 3
    ends = (planned[0].folder / "metrics.json").stat().st_mtime
    assert all(float(starts(job)[0][-1]) > ends for job in planned[1:])


def test_a_failed_stage_fails_the_jobs_that_need_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    planned = [*staged(tmp_path, "a", "b", stage="fail"), *jobs(tmp_path, "free")]
    with pytest.raises(FailedJobsError, match=r"1 of 4 jobs failed; 2 that start from them were not run"):
        run_jobs(planned, Pool([], cores=2, limit=1))
    assert [job.state for job in planned] == ["failed", "not run", "not run", "done"]
    assert caplog.text.count("error: it went wrong; see") == 1
    assert not planned[1].folder.exists()


def test_gpus_of_several_stages() -> None:
    assert largest([Demand(1), Demand(2, required=True)]) == Demand(2, required=True)
    assert largest([Demand(-1), Demand(2)]) == Demand(-1)
    assert largest([]) == Demand()


class Recorder:
    """An executor of submitit that notes each array: GPUs, dependency and folders of the jobs."""

    cluster = "slurm"
    arrays: list[tuple[int | None, str | None, list[str]]]

    def __init__(self, **_: object) -> None:
        self.parameters: dict[str, object] = {}

    def update_parameters(self, **parameters: object) -> None:
        self.parameters = parameters

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        self.arrays.append(
            (self.parameters.get("gpus_per_node"), self.parameters.get("slurm_dependency"), [])  # type: ignore[arg-type]
        )
        yield

    def submit(self, remote: cluster.RemoteJob) -> object:
        self.arrays[-1][2].append(remote.job.folder.name)
        number = f"{len(self.arrays)}_{len(self.arrays[-1][2]) - 1}"
        return type("Submitted", (), {"job_id": number})()


def test_slurm_jobs_depend_on_their_stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submitit = pytest.importorskip("submitit")
    monkeypatch.setattr(submitit, "AutoExecutor", Recorder)
    stages = [Job(0, (), tmp_path / name, Demand(2), stage="first") for name in ("s", "t")]
    rest = [Job(0, (), tmp_path / name, Demand(1)) for name in "abcd"]
    for job, need in zip(rest, (stages[0], stages[0], stages[1]), strict=False):
        job.needs = (need.folder,)
    Recorder.arrays = []
    submit_to_slurm([*stages, *rest], tmp_path)
    assert Recorder.arrays == [
        (1, None, ["d"]),
        (2, None, ["s", "t"]),
        (1, "afterany:2_0", ["a", "b"]),
        (1, "afterany:2_1", ["c"]),
    ]
    Recorder.arrays = []  # a limit on the jobs at a time applies to an array
    submit_to_slurm([*stages, *rest], tmp_path, slurm_array_parallelism=2, slurm_dependency="afterok:7")
    assert Recorder.arrays[2:] == [(1, "afterok:7,afterany:2_0:2_1", ["a", "b", "c"])]
    assert Recorder.arrays[0][1] == "afterok:7"


def test_a_job_of_a_failed_stage_is_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "POLL", 0.0)
    cancelled: list[Path] = []
    planned = staged(tmp_path, "a")

    class Submitted:
        def __init__(self, job: Job) -> None:
            self.job = job

        def state(self) -> str:
            return "done" if self.job.stage else "queued"

        def result(self) -> Job:
            return Job(0, (), self.job.folder, state="failed", problem="no luck")

        def cancel(self) -> None:
            cancelled.append(self.job.folder)

    handles: list[Handle] = [Submitted(job) for job in planned]  # type: ignore[misc]
    with pytest.raises(FailedJobsError):
        watch(planned, handles)
    assert cancelled == [planned[1].folder]
    assert planned[1].state == "not run"


def test_edited_data_are_trained_in_another_folder(grid: Grid, tmp_path: Path) -> None:
    """Also data that one stage reads; while what leaves the result as it is keeps the folder."""
    mine = tmp_path / "mine.csv"
    alone = [f"path={mine}", "data=pairs_file", "seed=1"]
    staged = ["experiment=pcc", "model=tiny_mistral", f"+stages.stage1.path={mine}"]

    def folders(*more: str) -> list[Path]:
        grid.jobs.clear()
        grid.stages.clear()
        added = [grid.add(0, [*alone, *more]), grid.add(1, staged)]
        return [*(job.folder for job in added), *grid.stages]

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


def test_a_finished_run_without_what_a_sweep_asks_for_is_named(
    grid: Grid, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = grid.add(0, ["seed=1"])
    job.run_folder.path.mkdir(parents=True)
    planned = grid.jobs[job.folder]
    with job_config(planned.composed):
        job.run_folder.save_config(planned.configs[""])
    job.run_folder.metrics_file.touch()
    grid.jobs.clear()
    assert grid.add(1, ["seed=1", "trainer.save_every=7"]).folder == job.folder
    assert "has finished without" not in caplog.text
    grid.jobs.clear()
    assert grid.add(2, ["seed=1", "trainer.keep_every=5"]).folder == job.folder
    assert f"{job.folder.name} has finished without trainer.keep_every" in caplog.text
    grid.jobs.clear()
    assert grid.add(3, ["seed=1", "callbacks=rank_monitor", "trainer.keep_state=true"]).folder == job.folder
    assert "has finished without callbacks.rank_monitor" in caplog.text
    assert "has finished without trainer.keep_state" in caplog.text

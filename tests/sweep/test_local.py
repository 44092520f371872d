"""Jobs of a sweep; most of them run a small script instead of train.py."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra._internal.callbacks import Callbacks
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
from hydra.core.hydra_config import HydraConfig
from hydra.types import HydraContext

from hydra_plugins.sts_lightning_launchers.launchers import ProcessLauncher
from sts_lightning.errors import UserError
from sts_lightning.runs.lock import locked
from sts_lightning.sweep.job import Demand, Job, Resources, _outcome, job_folder, result, run_job, signal_job
from sts_lightning.sweep.local import run_jobs
from sts_lightning.sweep.overview import overview_table
from sts_lightning.sweep.resources import Pool
from tests.conftest import CONF, ROOT, SHORT_RUN
from tests.sweep.conftest import jobs, starts

Cli = Callable[..., subprocess.CompletedProcess[str]]


def alone() -> Pool:
    """One job at a time, on the CPU."""
    return Pool([], cores=2, limit=1)


def test_a_failed_job_does_not_stop_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    planned = jobs(tmp_path, "one", "fail", "three")
    with pytest.raises(UserError, match=r"1 of 3 jobs failed; see .*fail1/output.log"):
        run_jobs(planned, alone())
    assert [job.state for job in planned] == ["done", "failed", "done"]
    assert [job.score for job in planned] == [53.0, None, 55.0]
    assert "error: it went wrong; see" in caplog.text
    assert "working on fail" in (planned[1].folder / "output.log").read_text()


def test_overview_counts(tmp_path: Path) -> None:
    planned = jobs(tmp_path, "one", "two", "three", "four")
    planned[0].state, planned[0].score, planned[0].seconds = "done", 50.0, 120.0
    planned[1].state = "running"
    assert overview_table(planned, 1, 0.0).title == (
        "1 of 4 done, 2 queued, 1 running, about 5 minutes left, best 50.00"
    )
    for job in planned:
        job.state = "was done"
    assert overview_table(planned, 1, 0.0).title == "4 of 4 done, best 50.00"


def test_a_killed_job_is_named_as_such(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    planned = jobs(tmp_path, "kill", "one")
    with pytest.raises(UserError, match=r"1 of 2 jobs failed"):
        run_jobs(planned, alone())
    assert [job.state for job in planned] == ["failed", "done"]
    assert "it was killed by SIGKILL (perhaps memory ran out); see" in caplog.text


def test_a_stopped_job_is_not_done_and_neither_is_one_without_a_result(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    planned = jobs(tmp_path, "term", "nothing", "one")
    with pytest.raises(UserError, match=r"2 of 3 jobs failed"):
        run_jobs(planned, alone())
    assert [job.state for job in planned] == ["stopped", "failed", "done"]
    assert "it was stopped by SIGTERM; see" in caplog.text
    assert "it ended without a result; see" in caplog.text
    with pytest.raises(UserError, match=r"1 of 1 jobs were stopped"):
        run_jobs(jobs(tmp_path, "term"), alone())


@pytest.mark.parametrize(
    ("code", "scored", "state"),
    [
        (0, True, "done"),
        (0, False, "failed"),
        (1, False, "failed"),
        (1, True, "failed"),
        (3, True, "was done"),
        (3, False, "failed"),
        (75, False, "runs elsewhere"),
        (75, True, "runs elsewhere"),
        (130, False, "stopped"),
        (143, False, "stopped"),
        (-signal.SIGTERM, False, "stopped"),
        (128 + signal.SIGUSR2, False, "stopped"),
        (-signal.SIGKILL, False, "failed"),
        (-signal.SIGSEGV, False, "failed"),
    ],
)
def test_what_an_exit_status_means(code: int, scored: bool, state: str) -> None:
    assert _outcome(code, scored)[0] == state


def test_sigterm_in_the_first_evaluation_of_a_job(tmp_path: Path) -> None:
    overrides = (*SHORT_RUN, "data.dev_size=2000", "trainer.max_steps=2", "logger=csv", "name=x")
    job = Job(0, overrides, tmp_path / "job", script=str(ROOT / "train.py"))
    worker = threading.Thread(target=run_job, args=(job, Resources({})))
    worker.start()
    deadline = time.monotonic() + 120
    while not (job.folder / "config.yaml").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    signal_job(job, signal.SIGTERM)
    worker.join()
    assert (job.state, job.score, job.problem) == ("stopped", None, "it was stopped by SIGTERM")
    output = (job.folder / "output.log").read_text()
    assert "stopped by SIGTERM before the first checkpoint. Start it again with the same command" in output
    assert "Traceback" not in output
    run_job(job, Resources({}))
    assert job.state == "done"
    output = (job.folder / "output.log").read_text()
    assert output.count("has no checkpoint yet: starting it again from the beginning") == 1


def test_two_sweeps_at_once_run_each_job_once(tmp_path: Path, script: Path) -> None:
    whats = ["a", "bb", "ccc", "dddd"]
    code = (
        "import sys; from pathlib import Path; from sts_lightning.sweep.local import *\n"
        f"sys.argv = [{str(script)!r}]\n"
        f"folder = Path({str(tmp_path)!r})\n"
        f"run_jobs([Job(n, (f'what={{w}}',), folder / w) for n, w in enumerate({whats!r})], Pool([], 2, 1))"
    )
    sweeps = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [sweep.wait(120) for sweep in sweeps] == [0, 0]
    for what in whats:
        assert len((tmp_path / what / "starts").read_text().splitlines()) == 1
        assert result(tmp_path / what) == 50.0 + len(what)


def test_started_again_it_does_only_what_is_left(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        run_jobs(jobs(tmp_path, "one", "fail"), alone())
    before = (tmp_path / "one0" / "metrics.json").read_bytes()
    again = jobs(tmp_path, "one", "fail", "new")
    with pytest.raises(UserError):
        run_jobs(again, alone())
    assert [job.state for job in again] == ["was done", "failed", "done"]
    assert again[0].score == 53.0
    assert len(starts(again[0])) == 1
    assert len(starts(again[1])) == 2
    assert (tmp_path / "one0" / "metrics.json").read_bytes() == before


def test_as_many_at_a_time_as_there_are_gpus_each_with_its_own_gpu(tmp_path: Path) -> None:
    planned = jobs(tmp_path, *"abcdef")
    for job in planned:
        job.demand = Demand(1)
    run_jobs(planned, Pool(["4", "7"], cores=2))
    begun = [(float(start[2]), start[1]) for job in planned for start in starts(job)]
    assert {gpu for _, gpu in begun} == {"4", "7"}
    for gpu in ("4", "7"):
        own = sorted(moment for moment, name in begun if name == gpu)
        assert all(later - earlier > 0.2 for earlier, later in pairwise(own))


def test_a_job_that_hangs_is_stopped_and_resumed(tmp_path: Path) -> None:
    planned = jobs(tmp_path, "hang", "one")
    with pytest.raises(UserError, match="1 of 2"):
        run_jobs(planned, alone(), timeout_minutes=0.05)
    assert [job.state for job in planned] == ["timed out", "done"]
    again = jobs(tmp_path, "hang", "one")
    run_jobs(again, alone())
    assert [job.state for job in again] == ["done", "was done"]
    assert [start[0] for start in starts(again[0])] == ["False", "True"]


def test_a_job_that_another_sweep_runs_is_left_to_it(tmp_path: Path) -> None:
    planned = jobs(tmp_path, "one", "two")
    planned[0].folder.mkdir()
    with locked(planned[0].folder):
        run_jobs(planned, alone())
    assert [job.state for job in planned] == ["runs elsewhere", "done"]
    assert not (planned[0].folder / "starts").exists()


def test_a_broken_result_is_named_and_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    planned = jobs(tmp_path, "one", "two")
    planned[0].folder.mkdir()
    (planned[0].folder / "metrics.json").write_text("{")
    with pytest.raises(UserError, match="1 of 2 jobs failed"):
        run_jobs(planned, alone())
    assert [job.state for job in planned] == ["failed", "done"]
    assert "one0/metrics.json is broken (JSONDecodeError" in caplog.text
    assert (planned[0].folder / "metrics.json").read_text() == "{"


def test_a_job_outlives_a_killed_sweep_and_is_not_run_twice(tmp_path: Path, script: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from sts_lightning.sweep.job import *\n"
        f"sys.argv = [{str(script)!r}]\n"
        f"run_job(Job(0, ('what=slow',), Path({str(tmp_path / 'slow0')!r})), Resources({{}}))"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 60
    while not (tmp_path / "slow0" / "starts").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.wait()
    (again,) = jobs(tmp_path, "slow")
    run_jobs([again], alone())
    assert again.state == "runs elsewhere"
    while again.state == "runs elsewhere" and time.monotonic() < deadline:
        time.sleep(0.2)
        (again,) = jobs(tmp_path, "slow")
        run_jobs([again], alone())
    assert again.state == "was done"
    assert len(starts(again)) == 1


@pytest.mark.parametrize(("number", "name"), [(signal.SIGINT, b"Ctrl-C"), (signal.SIGTERM, b"SIGTERM")])
def test_a_stopped_sweep_lets_the_jobs_save_and_leaves_the_rest(
    number: signal.Signals, name: bytes, tmp_path: Path, script: Path
) -> None:
    code = (
        "import signal, sys; from pathlib import Path; from sts_lightning.sweep.local import *\n"
        "from sts_lightning.interrupts import listening\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's & would have it ignored
        f"sys.argv = [{str(script)!r}]\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "jobs = [Job(n, (f'what={w}',), folder / w) for n, w in enumerate(['hang', 'one'])]\n"
        "with listening(): run_jobs(jobs, Pool([], 2, 1))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, start_new_session=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "hang" / "checkpoints" / "last.ckpt").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    os.kill(process.pid, number)
    _, errors = process.communicate(timeout=30)
    assert b"stopped by " + name + b"; 2 of 2 jobs are left. The same command resumes them." in errors
    assert not (tmp_path / "one").exists()
    assert not (tmp_path / "hang" / "metrics.json").exists()


def test_results_of_runs_stages_and_evaluations(tmp_path: Path) -> None:
    assert result(tmp_path) is None
    (tmp_path / "metrics.json").write_text(json.dumps({"test": {"tasks": {}, "average": 70.5}}))
    assert result(tmp_path) == 70.5
    (tmp_path / "stages.yaml").write_text("first: {seed: 1}\nlast: {seed: 1}\n")
    assert result(tmp_path) is None
    (tmp_path / "last").mkdir()
    (tmp_path / "last" / "metrics.json").write_text(json.dumps({"dev": {"spearman": 80.0}, "test": None}))
    assert result(tmp_path) == 80.0


def test_a_folder_belongs_to_a_configuration() -> None:
    def folder(*overrides: str) -> Path:
        return job_folder(compose("train", [*SHORT_RUN, "name=x", *overrides], return_hydra_config=True))

    with initialize_config_dir(str(CONF), version_base="1.3"):
        assert folder("seed=1") == folder("seed=1", "debug=true", "data_root=elsewhere")
        assert folder("seed=1") != folder("seed=2")
        assert folder("optim.lr=5e-5") == folder()
        assert folder("name=y").parent == Path("runs/y")


def test_the_folder_of_a_sweep_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The basic sweeper reads the folder, named after ``${hydra:...}``, as soon as the launcher is set up."""
    monkeypatch.setattr(HydraConfig.instance(), "cfg", None)
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("train", ["model=tiny_bert", "data=toy"], return_hydra_config=True)
    ProcessLauncher(None, None, None).setup(
        hydra_context=HydraContext(ConfigLoaderImpl(ConfigSearchPathImpl()), Callbacks()),
        task_function=lambda _: None,
        config=cfg,
    )
    assert cfg.hydra.sweep.dir == "runs/toy-pearson-tiny_bert"


def test_a_sweep_through_the_command_line(cli: Cli, tmp_path: Path) -> None:
    command = ["train.py", "-m", *SHORT_RUN, "trainer.max_steps=2", "logger=csv"]
    runs = "runs/toy-pearson-tiny_bert"
    done = cli(*command, "seed=1", "optim.lr=-1,5e-5", "hydra.launcher.jobs=2")
    assert done.returncode == 1
    assert f"error: 1 of 2 jobs failed; see {runs}/" in done.stderr
    assert "optim.lr must be positive" in done.stdout + done.stderr
    (first,) = [path.parent for path in tmp_path.glob(f"{runs}/*/metrics.json")]
    before = (first / "metrics.json").read_bytes()
    again = cli(*command, "seed=1,2")
    assert again.returncode == 0, again.stderr
    assert "was done: " in again.stdout
    assert (first / "metrics.json").read_bytes() == before
    seeds = [json.loads(path.read_text())["seed"] for path in tmp_path.glob(f"{runs}/*/metrics.json")]
    assert sorted(seeds) == [1, 2]
    rejected = cli(*command, "seed=3", "trainer=gpu", "trainer.devices=2")
    assert rejected.returncode == 1
    assert "a job of the sweep needs 2 GPUs, but 0 are visible" in rejected.stderr
    assert (
        len([path for path in tmp_path.glob(f"{runs}/*") if path.is_dir()]) == 3
    )  # no folder for a job that was not started

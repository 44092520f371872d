"""One job of a sweep: folder, process and result."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from sts_lightning.core.errors import RunningElsewhereError
from sts_lightning.runs.lock import is_locked
from sts_lightning.sweep import local
from sts_lightning.sweep.job import Job, job_folder
from sts_lightning.sweep.local import Process, run_jobs
from tests.conftest import CONF, ROOT, SHORT_RUN
from tests.unit.sweep.conftest import alone, jobs, starts


def test_sigterm_in_the_first_evaluation_of_a_job(tmp_path: Path) -> None:
    overrides = (*SHORT_RUN, "data.dev_size=2000", "trainer.max_steps=2", "logger=csv", "name=x")
    job = Job(0, overrides, tmp_path / "job", script=str(ROOT / "train.py"))
    process = Process(job, {})
    deadline = time.monotonic() + 120
    while not (job.folder / "config.yaml").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.stop()
    assert (job.state, job.score, job.problem) == ("stopped", None, "it was stopped by SIGTERM")
    output = (job.folder / "output.log").read_text()
    assert "stopped by SIGTERM before the first checkpoint. Start it again with the same command" in output
    assert "Traceback" not in output
    assert Process(job, {}).wait().state == "done"


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
def test_a_job_saves_and_stops_when_its_sweep_is_killed(tmp_path: Path) -> None:
    """As Ray kills the worker that waits for a job of a cancelled sweep."""
    overrides = (*SHORT_RUN, "data.train_size=4000", "data.batch_size=4", "trainer.save_every=1", "name=x")
    folder = tmp_path / "job"
    code = (
        "from pathlib import Path; from sts_lightning.sweep.local import Job, Process\n"
        f"job = Job(0, {overrides!r}, Path({str(folder)!r}), script={str(ROOT / 'train.py')!r})\n"
        "Process(job, {}).wait()"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 240
    while not (folder / "checkpoints" / "last.ckpt").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.wait()
    while is_locked(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_locked(folder)
    assert "stopped by SIGTERM after step " in (folder / "output.log").read_text()
    assert not Job(0, (), folder).read_result()


def test_a_job_that_outlives_a_killed_sweep_is_not_run_twice(tmp_path: Path, script: Path) -> None:
    """As train.py does where the system has no signal for it."""
    code = (
        "import sys; from pathlib import Path; from sts_lightning.sweep.local import Job, Process\n"
        f"sys.argv = [{str(script)!r}]\n"
        f"Process(Job(0, ('what=slow',), Path({str(tmp_path / 'slow0')!r})), {{}}).wait()"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 60
    while not (tmp_path / "slow0" / "starts").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.wait()
    (again,) = jobs(tmp_path, "slow")
    with pytest.raises(RunningElsewhereError):
        run_jobs([again], alone())
    assert again.state == "runs elsewhere"
    while is_locked(again.folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    (again,) = jobs(tmp_path, "slow")
    run_jobs([again], alone())
    assert again.state == "was done"
    assert len(starts(again)) == 1


def test_jobs_of_a_sweep_in_a_task_of_several_are_alone(
    tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_PROCID", "3")
    monkeypatch.setenv("SLURM_LOCALID", "1")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    script.write_text("import os; print(*sorted(os.environ))")
    (job,) = jobs(tmp_path, "one")
    Process(job, {}).wait()
    names = (job.folder / "output.log").read_text().split()
    assert [name for name in names if name.startswith("SLURM_")] == ["SLURM_JOB_ID"]
    assert "PYTORCH_CUDA_ALLOC_CONF" in names


def test_a_folder_belongs_to_a_configuration() -> None:
    def folder(*overrides: str) -> Path:
        return job_folder(compose("train", [*SHORT_RUN, "name=x", *overrides], return_hydra_config=True))

    with initialize_config_dir(str(CONF), version_base="1.3"):
        assert folder("seed=1") == folder("seed=1", "data_root=elsewhere")
        assert folder("seed=1") != folder("seed=2")
        assert folder("optim.lr=5e-5") == folder()
        assert folder("name=y").parent == Path("runs/y")


def run_script(folder: Path, text: str, minutes: float | None = None) -> Job:
    script = folder / "script.py"
    script.write_text(text)
    job = Job(0, ("seed=1", "traceback=true"), folder / "job", script=str(script))
    return Process(job, {}, minutes).wait()


TOLD = "import pathlib, sys; pathlib.Path('{told}').write_text(' '.join(sys.argv[1:]))"


def test_a_cut_job_has_the_command_of_a_new_one(tmp_path: Path) -> None:
    last = tmp_path / "job" / "checkpoints" / "last.ckpt"
    last.parent.mkdir(parents=True)
    last.touch()
    told = tmp_path / "told"
    run_script(tmp_path, TOLD.format(told=told))
    command = f"seed=1 traceback=true hydra.run.dir={tmp_path / 'job'}"
    assert told.read_text() == command


@pytest.mark.parametrize(("obeys", "left"), [(True, "saved"), (False, "began")])
def test_a_job_whose_time_is_over_may_save(
    obeys: bool, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "PATIENCE", 10.0 if obeys else 0.3)
    state = tmp_path / "state"
    saves = f"lambda *_: (state.write_text('saved'), sys.exit(143)) if {obeys} else None"
    text = f"""
import pathlib, signal, sys, time
state = pathlib.Path({str(state)!r})
signal.signal(signal.SIGTERM, {saves})
state.write_text("began")
while True:
    time.sleep(0.05)
"""
    job = run_script(tmp_path, text, minutes=2 / 60)
    assert (job.state, state.read_text()) == ("timed out", left)
    assert job.problem == "it took longer than 0.0333333 minutes"

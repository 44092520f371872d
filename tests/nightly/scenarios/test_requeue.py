"""A run in a batch job of SLURM that saves at its time limit, is queued again, and resumes itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.conftest import ROOT, SHORT_RUN
from tests.support.whole_runs import EPOCHS, same_results


def test_a_batch_job_requeues_and_resumes_itself(uninterrupted: Path, tmp_path: Path) -> None:
    """The same command both times, without the name of a folder."""
    (tmp_path / "bin").mkdir()
    scontrol = tmp_path / "bin" / "scontrol"
    scontrol.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/orders\n')
    scontrol.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    environment |= {"SLURM_JOB_ID": "77", "SLURM_JOB_NAME": "run.sh", "SLURM_NTASKS": "1"}
    environment |= {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}  # as srun sets them
    command = [sys.executable, str(ROOT / "train.py"), *EPOCHS, "name=test"]

    def start(**more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment | more,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    first = start()
    deadline = time.monotonic() + 240
    while not list(tmp_path.glob("runs/test/*/checkpoints/last.ckpt")) and time.monotonic() < deadline:
        time.sleep(0.01)
    first.send_signal(signal.SIGUSR1)
    output, errors = first.communicate(timeout=240)
    assert first.returncode == 128 + signal.SIGUSR1, output + errors
    assert "stopped by SIGUSR1 after step " in errors
    assert "SLURM job 77 is queued again and will resume." in errors
    assert (tmp_path / "orders").read_text() == "requeue 77\n"
    (run,) = tmp_path.glob("runs/test/slurm-77-*")
    assert not list(run.glob("hpc_ckpt*"))
    assert not (run / "metrics.json").exists()
    second = start(SLURM_RESTART_COUNT="1")
    output, errors = second.communicate(timeout=240)
    assert second.returncode == 0, errors
    assert "resuming after step " in output
    assert list(tmp_path.glob("runs/test/*")) == [run]
    same_results(uninterrupted, run)


def test_a_command_runs_again_in_the_same_allocation(tmp_path: Path) -> None:
    environment = {**os.environ, "SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "work"}
    command = [sys.executable, str(ROOT / "train.py"), *SHORT_RUN, "data.batch_size=16", 'name="a, b"']
    command += ["trainer.max_epochs=-1", "trainer.max_steps=2", "evaluation.final=false"]

    def start(**more: str) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment | more, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    start()
    start()
    first, second = sorted(path.name for path in tmp_path.glob("runs/a, b/*"))
    assert second == f"{first}-2"
    finished = [path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/*/metrics.json")]
    assert f"{second} has finished: dev " in start(SLURM_RESTART_COUNT="1")
    assert [path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/*/metrics.json")] == finished

"""Sweeps on a Ray cluster of this machine."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from tests.conftest import EXACT, ROOT
from tests.nightly.test_slurm_engine import free_ports
from tests.support.two_runs import write_experiments

pytest.importorskip("ray", reason="needs the extra ray")

RUN = ["model=tiny_bert", EXACT, "data=toy", "data.dev_size=40", "data.test_size=40", "data.batch_size=4"]
RUN += ["trainer.val_every=null", "trainer.save_every=1", "logger=csv", "name=sweep"]


@pytest.fixture(scope="module", autouse=True)
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster with two cores; `ray stop` would end those of others too.

    It leaves its address in RAY_TMPDIR, where other programs must not find it. Paths of sockets are limited
    to 107 characters, too few for pytest's folders.
    """
    (port,) = free_ports(1)
    log = tmp_path_factory.mktemp("ray") / "log"
    options = "--head --block --num-cpus=2 --num-gpus=0 --include-dashboard=false --disable-usage-stats"
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", folder)
        # Ray listens on the machine's address even if it is told 127.0.0.1, so the cluster has a secret.
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        patch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", str(ROOT / "src")))
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", *options.split()]
        command.append(f"--port={port}")
        with log.open("wb") as output:
            cluster = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            assert _wait(lambda: b"Ray runtime started" in log.read_bytes(), 60), log.read_text()
            yield f"127.0.0.1:{port}"
        finally:
            cluster.terminate()
            cluster.wait(60)


def _wait(condition: Callable[[], object], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.2)
    return bool(condition())


def start(folder: Path, address: str, *overrides: str) -> subprocess.Popen[str]:
    """A sweep in the background."""
    launcher = ["hydra/launcher=ray", f"hydra.launcher.address={address}", "hydra.launcher.cpus_per_job=1"]
    return subprocess.Popen(
        [sys.executable, str(ROOT / "train.py"), "-m", *launcher, *RUN, *overrides],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def sweep(folder: Path, address: str, *overrides: str) -> tuple[int, str]:
    """Exit status and output of a sweep."""
    process = start(folder, address, *overrides)
    output, _ = process.communicate(timeout=400)
    return process.returncode, output


def test_a_job_that_fails_leaves_the_other_alone(tmp_path: Path, address: str) -> None:
    command = ["data.train_size=64", "optim.lr=-1,5e-5"]
    code, output = sweep(tmp_path, address, *command)
    assert code == 1
    assert "error: 1 of 2 jobs failed; see runs/sweep/" in output
    assert "Input should be greater than 0" in output
    (metrics,) = tmp_path.glob("runs/sweep/*/metrics.json")
    before = metrics.stat().st_mtime_ns
    code, output = sweep(tmp_path, address, *command)
    assert code == 1
    assert "was done: " in output
    assert metrics.stat().st_mtime_ns == before


def test_a_cluster_for_one_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with TemporaryDirectory() as empty:
        monkeypatch.setenv("RAY_TMPDIR", empty)
        code, output = sweep(tmp_path, "null", "data.train_size=64", "seed=1,2")
    assert code == 0, output
    assert "2 of 2 done" in output
    assert len(list(tmp_path.glob("runs/sweep/*/metrics.json"))) == 2


def test_a_stopped_sweep_cancels_its_jobs_and_resumes(tmp_path: Path, address: str) -> None:
    command = ["data.train_size=1200", "seed=1"]
    first = start(tmp_path, address, *command)
    assert _wait(lambda: list(tmp_path.glob("runs/sweep/*/checkpoints/last.ckpt")), 200)
    first.terminate()
    output, _ = first.communicate(timeout=100)
    assert first.returncode == 143, output
    assert "stopped by SIGTERM; 1 of 1 jobs are left." in output
    (run,) = (path.parents[1] for path in tmp_path.glob("runs/sweep/*/checkpoints/last.ckpt"))
    assert _wait(lambda: "stopped by SIGTERM after step " in (run / "output.log").read_text(), 60)
    assert _wait(lambda: not processes_of(run), 60)
    code, output = sweep(tmp_path, address, *command)
    assert code == 0, output
    assert "resuming after step " in (run / "output.log").read_text()
    assert (run / "metrics.json").is_file()


def processes_of(run: Path) -> list[int]:
    """Numbers of the processes that train a run."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline", "cwd"])
        if run.name in " ".join(process.info["cmdline"] or ()) and process.info["cwd"] == str(run.parents[2])
    ]


def test_a_job_over_its_time_limit_is_killed(tmp_path: Path, address: str) -> None:
    code, output = sweep(
        tmp_path, address, "data.train_size=40000", "seed=1", "hydra.launcher.timeout_minutes=0.3"
    )
    assert code == 1
    assert "it took longer than 0.3 minutes" in output
    (run,) = (path.parent for path in tmp_path.glob("runs/sweep/*/output.log"))
    assert not processes_of(run)


def test_jobs_wait_for_the_run_that_they_start_from(tmp_path: Path, address: str) -> None:
    write_experiments(tmp_path / "conf")
    code, output = sweep(tmp_path, address, "init_from=experiment:one", "optim.lr=1e-5,1e-4")
    assert code == 0, output
    assert "3 of 3 done" in output
    found = [json.loads(path.read_text()) for path in tmp_path.glob("runs/sweep/*/metrics.json")]
    (first,) = {each["earlier"][0]["run"] for each in found if each["earlier"]}
    assert (tmp_path / first / "metrics.json").is_file()

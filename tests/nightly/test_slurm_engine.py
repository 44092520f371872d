"""Sweeps and batch jobs on SLURM itself, one node on the loopback interface: apt-get install slurm-wlm."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from getpass import getuser
from pathlib import Path

import pytest

from tests.conftest import EXACT, ROOT, SHORT_DATA
from tests.support.two_runs import write_experiments

pytest.importorskip("submitit", reason="needs the extra slurm")

RUN = ["model=tiny_bert", EXACT, "data=toy", "data.dev_size=40", "data.test_size=40", "data.batch_size=4"]
RUN += ["trainer.val_every=null", "trainer.save_every=1", "logger=csv", "name=sweep"]
LAUNCHER = ["hydra/launcher=slurm", "hydra.launcher.cpus_per_job=1", "hydra.launcher.gpus_per_job=0"]

DAEMONS = {
    "munged": "--foreground --force --key-file={0}/key --socket={0}/munge.socket --pid-file={0}/munged.pid "
    "--log-file={0}/munged.log --seed-file={0}/munge.seed",
    "slurmctld": "-D",
    "slurmd": "-D",
}

CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
# Daemons listen on the loopback interface alone.
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
CredType=cred/munge
# cred_expire is also the time that a requeued job waits, two minutes by default.
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
# A container has neither cgroups of its own nor accounting.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
# Two processors, however many the machine has.
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=2
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE
"""


TABLE = f"""
title: One row after a preparation
needs: up to 6 min
seeds: [1]
columns: [dev]
overrides: {["model=tiny_bert", *SHORT_DATA, "logger=csv", "trainer.val_every=null"]}
rows:
  head:
    train: [experiment=regression_head, data=toy, data.kind=classes, trainer.max_steps=2]
    once: true
    shown: false
  mse: [loss=mse, trainer.init=final, trainer.max_steps=4, 'init_from=row:head']
"""


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.fixture(scope="module", autouse=True)
def _slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """SLURM with munge, as processes of this one; its commands find it by SLURM_CONF."""
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
    programs = {name: shutil.which(name, path=path) for name in (*DAEMONS, "sbatch")}
    if missing := [name for name, program in programs.items() if program is None]:
        pytest.skip(f"SLURM is not installed ({', '.join(missing)}): apt-get install slurm-wlm")
    folder = tmp_path_factory.mktemp("slurm")
    host = socket.gethostname().partition(".")[0]
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "key").write_bytes(os.urandom(256))
    (folder / "key").chmod(0o400)
    conf = CONF.format(host=host, ports=free_ports(2), user=getuser(), folder=folder)
    (folder / "slurm.conf").write_text(conf)
    daemons: list[subprocess.Popen[bytes]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
        patch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", str(ROOT / "src")))
        patch.setenv("OMP_NUM_THREADS", "1")
        try:
            for name, arguments in DAEMONS.items():
                command = [str(programs[name]), *arguments.format(folder).split()]
                with (folder / f"{name}.out").open("wb") as output:
                    daemons.append(subprocess.Popen(command, stdout=output, stderr=output))
                if name == "munged":
                    _wait(lambda: (folder / "munge.socket").exists(), 10)
            if not _wait(lambda: _output("sinfo", "--noheader", "--format=%T") == "idle", 30):
                said = [path.read_text().strip().splitlines()[-3:] for path in sorted(folder.glob("*.log"))]
                pytest.skip(f"SLURM does not start here: {said}")
            yield
        finally:
            for daemon in reversed(daemons):
                daemon.terminate()
            for daemon in daemons:
                daemon.wait(30)


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _wait(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.2)
    return condition()


def start(folder: Path, *overrides: str) -> subprocess.Popen[str]:
    """A sweep in the background."""
    return subprocess.Popen(
        [sys.executable, str(ROOT / "train.py"), "-m", *LAUNCHER, *RUN, *overrides],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def sweep(folder: Path, *overrides: str) -> tuple[int, str]:
    """Exit status and output of a sweep."""
    process = start(folder, *overrides)
    output, _ = process.communicate(timeout=600)
    return process.returncode, output


def trained_steps(run: Path) -> list[int]:
    """Steps of a run in the order in which it trained them."""
    lines = (run / "history.csv").read_text().splitlines()
    names = lines[0].split(",")
    rows = [dict(zip(names, line.split(","), strict=True)) for line in lines[1:]]
    return [int(row["step"]) for row in rows if row.get("train/loss")]


LISTED = "PENDING,RUNNING,COMPLETING"


def printed(folder: Path, pattern: str) -> str:
    """Text of the files that a pattern names."""
    return "".join(path.read_text() for path in folder.glob(pattern))


def queued(states: str) -> list[str]:
    """Numbers of the jobs in one of several states."""
    return _output("squeue", "--noheader", "--array", f"--states={states}", "--format=%i").split()


def test_a_requeued_job_resumes_and_a_cancelled_one_is_left(tmp_path: Path) -> None:
    command = ["data.train_size=600", "seed=1,2"]
    first = start(tmp_path, *command)
    assert _wait(lambda: len(list(tmp_path.glob("runs/sweep/*/checkpoints/last.ckpt"))) == 2, 240)
    requeued, cancelled = queued("RUNNING")
    subprocess.run(["scontrol", "requeue", requeued], check=True)
    subprocess.run(["scancel", cancelled], check=True)
    output, _ = first.communicate(timeout=400)
    assert first.returncode == 1, output
    assert "error: 1 of 2 jobs failed; see runs/sweep/" in output
    assert re.search(r"SLURM job \d+ ended without a result: ", output)
    (done,) = (path.parent for path in tmp_path.glob("runs/sweep/*/metrics.json"))
    (left,) = (
        path.parents[1]
        for path in tmp_path.glob("runs/sweep/*/checkpoints/last.ckpt")
        if path.parents[1] != done
    )
    for run in (done, left):
        assert "stopped by SIGTERM after step " in (run / "output.log").read_text()
    assert "resuming after step " in (done / "output.log").read_text()
    assert "resuming after step " not in (left / "output.log").read_text()

    code, output = sweep(tmp_path, *command)
    assert code == 0, output
    assert "was done: " in output
    assert "2 of 2 done" in output
    assert "resuming after step " in (left / "output.log").read_text()
    for run in (done, left):
        assert (run / "metrics.json").is_file()
        steps = trained_steps(run)
        assert steps == sorted(set(steps))
    assert queued(LISTED) == []


def test_a_job_that_fails_and_one_that_is_cancelled_in_the_queue(tmp_path: Path) -> None:
    later = "+hydra.launcher.extra.slurm_additional_parameters={begin: now+1hour}"
    waiting = start(tmp_path, later, "seed=1")
    assert _wait(lambda: len(queued("PENDING")) == 1, 60)
    subprocess.run(["scancel", *queued("PENDING")], check=True)
    output, _ = waiting.communicate(timeout=100)
    assert waiting.returncode == 1
    assert re.search(r"SLURM job \d+ ended without a result: it was cancelled", output)

    code, output = sweep(tmp_path, "data.train_size=64", "optim.lr=-1,5e-5")
    assert code == 1
    assert "error: 1 of 2 jobs failed; see runs/sweep/" in output
    assert "Input should be greater than 0" in output
    assert len(list(tmp_path.glob("runs/sweep/*/metrics.json"))) == 1


def test_ctrl_c_cancels_the_jobs(tmp_path: Path) -> None:
    process = start(tmp_path, "data.train_size=40000", "seed=1")
    assert _wait(lambda: bool(list(tmp_path.glob("runs/sweep/*/checkpoints/last.ckpt"))), 240)
    process.terminate()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 143, output
    assert "stopped by SIGTERM; 1 of 1 jobs are left." in output
    assert _wait(lambda: queued(LISTED) == [], 60)
    (run,) = (path.parents[1] for path in tmp_path.glob("runs/sweep/*/checkpoints/last.ckpt"))
    assert "stopped by SIGTERM after step " in (run / "output.log").read_text()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("hydra.launcher.partition=missing", "invalid partition specified: missing"),
        ("hydra.launcher.gpus_per_job=null", "Invalid generic resource"),  # the node has no GPU
    ],
)
def test_what_slurm_rejects_is_one_line(setting: str, message: str, tmp_path: Path) -> None:
    code, output = sweep(tmp_path, setting, "seed=1,2")
    assert code == 1
    assert "error: 2 of 2 jobs failed" in output
    lines = [line for line in output.splitlines() if line.startswith("  hydra.launcher: sbatch: error: ")]
    assert len(lines) == 2
    assert all(message in line for line in lines)
    assert "Traceback" not in output


def test_runs_that_jobs_start_from_are_trained_first(tmp_path: Path) -> None:
    write_experiments(tmp_path / "conf")
    code, output = sweep(tmp_path, "init_from=experiment:one", "trainer.max_steps=2", "optim.lr=1e-5,1e-4")
    assert code == 0, output
    assert "3 of 3 done" in output
    found = {path: json.loads(path.read_text()) for path in tmp_path.glob("runs/sweep/*/metrics.json")}
    (first,) = {each["earlier"][0]["run"] for each in found.values() if each["earlier"]}
    ended = (tmp_path / first / "metrics.json").stat().st_mtime
    later = [path for path, each in found.items() if each["earlier"]]
    assert len(later) == 2
    assert all((path.parent / "config.yaml").stat().st_mtime > ended for path in later)


def test_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf" / "reproduce").mkdir(parents=True)
    (tmp_path / "conf" / "reproduce" / "toy.yaml").write_text(TABLE)
    monkeypatch.setenv("STS_CONF", str(tmp_path / "conf"))
    command = [
        sys.executable,
        "-m",
        "sts_lightning.cli.main",
        "reproduce",
        "run",
        "toy",
        "--launcher",
        "slurm",
    ]
    settings = ["--set", "cpus_per_job=1", "--set", "gpus_per_job=0"]
    done = subprocess.run(
        [*command, *settings], cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    runs = [json.loads(path.read_text()) for path in tmp_path.glob("runs/reproduce/*/metrics.json")]
    assert len(runs) == 2
    assert (tmp_path / "runs" / "reproduce" / ".submitit").is_dir()


def test_a_job_at_its_time_limit_is_queued_again(tmp_path: Path) -> None:
    limit = ["hydra.launcher.timeout_minutes=2", "+hydra.launcher.extra.slurm_signal_delay_s=45"]
    process = start(tmp_path, *limit, "data.train_size=40000", "seed=1")
    assert _wait(lambda: "resuming after step " in printed(tmp_path, "runs/sweep/*/output.log"), 500)
    assert re.search(r"stopped by SIG(USR2|TERM) after step ", printed(tmp_path, "runs/sweep/*/output.log"))
    assert process.poll() is None  # the sweep waits for the job that was queued again
    process.terminate()
    output, _ = process.communicate(timeout=100)
    assert process.returncode == 143, output
    assert _wait(lambda: queued(LISTED) == [], 60)


def test_a_batch_job_queues_itself_again(tmp_path: Path) -> None:
    """The script of docs/runs.md."""
    script = tmp_path / "run.sh"
    command = " ".join([sys.executable, str(ROOT / "train.py"), *RUN, "data.train_size=40000"])
    script.write_text(f"#!/bin/sh\nsrun {command}\n")
    limits = ["--time=2", "--signal=USR1@45", "--requeue", "--open-mode=append"]
    subprocess.run(["sbatch", *limits, str(script)], cwd=tmp_path, check=True)
    assert _wait(lambda: "resuming after step " in printed(tmp_path, "slurm-*.out"), 500)
    subprocess.run(["scancel", *queued(LISTED)], check=True)
    (run,) = tmp_path.glob("runs/sweep/*")
    assert run.name.startswith("slurm-")
    output = printed(tmp_path, "slurm-*.out")
    assert "stopped by SIGUSR1 after step " in output
    assert "is queued again and will resume." in output
    assert _wait(lambda: queued(LISTED) == [], 60)

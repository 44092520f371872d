"""The templates of clusters, with stand-ins for what a cluster does with them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from sts_lightning.runs.folder import RunFolder
from tests.conftest import ROOT, SHORT_RUN

TEMPLATES = ROOT / "docs" / "clusters"

SWEEP = " ".join([*SHORT_RUN, "name=sweep", "logger=csv", "evaluation.final=false", "trainer.max_steps=2"])


def started(script: str, folder: Path, variables: dict[str, str]) -> subprocess.Popen[str]:
    """Start a script as a machine would, which sees ``folder`` as /sweep."""
    script = script.replace("/sweep", str(folder))
    script = script.replace(".venv/bin/sts-lightning", "sts-lightning")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env={**os.environ, **variables, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(processes: list[subprocess.Popen[str]]) -> str:
    """Wait for processes that end well, and return what they printed."""
    outputs = [process.communicate(timeout=900)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), outputs
    return "".join(outputs)


def seeds(folder: Path) -> list[int]:
    """Seeds of the finished runs."""
    runs = [RunFolder(path.parent) for path in folder.glob("runs/sweep/*/metrics.json")]
    return sorted(run.metrics().details["seed"] for run in runs)


def pod(index: int, job: dict[str, Any], folder: Path, **variables: str) -> subprocess.Popen[str]:
    """Start a pod of an indexed Job, whose index Kubernetes adds to the variables of the container."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["bash", "-c"]
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert container["workingDir"] in mounted
    given = {variable["name"]: variable["value"] for variable in container["env"]}
    own = {"JOB_COMPLETION_INDEX": str(index), **variables}
    return started(container["args"][0], folder, {**given, **own})


def kubernetes() -> dict[str, Any]:
    """Read the template, in which the number of parts must be that of completions."""
    job: dict[str, Any] = yaml.safe_load((TEMPLATES / "kubernetes.yaml").read_text())
    (container,) = job["spec"]["template"]["spec"]["containers"]
    given = {variable["name"]: variable["value"] for variable in container["env"]}
    assert job["spec"]["completionMode"] == "Indexed"
    assert given["PARTS"] == str(job["spec"]["completions"])
    volumes = {volume["name"] for volume in job["spec"]["template"]["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    return job


def test_pods_divide_a_sweep_and_share_a_stage(tmp_path: Path) -> None:
    stages = "+stages.one.experiment=stage2 +stages.two.experiment=stage2 +stages.two.seed=1,2"
    job = kubernetes()
    pods = [pod(index, job, tmp_path, PARTS="2", SWEEP=f"{SWEEP} {stages}") for index in range(2)]
    printed = finished(pods)
    (stage,) = tmp_path.glob("runs/sweep/stages/*/metrics.json")
    assert len(re.findall(r"^done: .*seed=\d", printed, re.MULTILINE)) == 2
    assert len(list(tmp_path.glob("runs/sweep/*/stages.yaml"))) == 2
    assert stage.is_file()


def test_a_pod_that_is_evicted_goes_on(tmp_path: Path) -> None:
    job = kubernetes()
    long = "trainer.max_steps=60 trainer.max_epochs=-1 trainer.save_every=5 trainer.val_every=60"
    sweep = f"{SWEEP.replace('trainer.max_steps=2', long)} seed=1,2,3"
    first = pod(1, job, tmp_path, PARTS="2", SWEEP=sweep)
    deadline = time.monotonic() + 600
    while not list(tmp_path.glob("runs/sweep/*/checkpoints/last.ckpt")) and time.monotonic() < deadline:
        time.sleep(0.01)
    first.send_signal(signal.SIGTERM)
    printed = first.communicate(timeout=600)[0]
    assert first.returncode == 128 + signal.SIGTERM, printed
    assert seeds(tmp_path) == []
    finished([pod(1, job, tmp_path, PARTS="2", SWEEP=sweep)])
    assert seeds(tmp_path) == [2]
    (run,) = tmp_path.glob("runs/sweep/*/metrics.json")
    assert RunFolder(run.parent).metrics().details["resumed"] is True


def test_machines_of_a_cloud_divide_a_sweep(tmp_path: Path) -> None:
    task = yaml.safe_load((TEMPLATES / "skypilot.yaml").read_text())
    assert set(task["file_mounts"]) == {"/sweep"}
    sweep = f"{SWEEP} seed=1,2"
    ranks = [
        started(
            task["run"],
            tmp_path,
            {**task["envs"], "SWEEP": sweep, "SKYPILOT_NODE_RANK": str(rank), "SKYPILOT_NUM_NODES": "2"},
        )
        for rank in range(2)
    ]
    finished(ranks)
    assert seeds(tmp_path) == [1, 2]

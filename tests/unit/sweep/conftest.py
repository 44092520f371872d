"""A small script in place of train.py, and jobs that run it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sts_lightning.sweep.gpu_pool import Pool
from sts_lightning.sweep.job import Job

SCRIPT = """
import contextlib, json, os, pathlib, signal, sys, time
from sts_lightning.core.errors import UserError
from sts_lightning.runs.lock import locked
arguments = dict(text.split("=", 1) for text in sys.argv[1:])
folder, what = pathlib.Path(arguments["hydra.run.dir"]), arguments["what"]
resumed = (folder / "checkpoints" / "last.ckpt").exists()
held = contextlib.ExitStack()
try:
    held.enter_context(locked(folder))
    if (folder / "metrics.json").exists():
        sys.exit()
except UserError as error:
    sys.exit(error.exit_status)
with (folder / "starts").open("a") as file:
    file.write(f"{resumed} {os.environ.get('CUDA_VISIBLE_DEVICES')} {time.time()}\\n")
print("working on", what, flush=True)
if what == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if what == "fail":
    sys.exit("error: it went wrong")
if what == "nothing":
    sys.exit(0)
if what == "term":
    sys.exit(143)
if what == "hang" and not resumed:
    (folder / "checkpoints").mkdir()
    (folder / "config.yaml").touch()
    (folder / "checkpoints" / "last.ckpt").touch()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    time.sleep(60)
time.sleep({"slow": 4, "wait": 3}.get(what, 0.2))
(folder / "metrics.json").write_text(json.dumps({"dev": {"spearman": 50.0 + len(what)}}))
"""


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    monkeypatch.setattr(sys, "argv", [str(path)])
    return path


def jobs(folder: Path, *whats: str) -> list[Job]:
    return [Job(number, (f"what={what}",), folder / f"{what}{number}") for number, what in enumerate(whats)]


def starts(job: Job) -> list[list[str]]:
    return [line.split() for line in (job.folder / "starts").read_text().splitlines()]


def alone() -> Pool:
    """One job at a time, on the CPU."""
    return Pool([], cores=2, limit=1)

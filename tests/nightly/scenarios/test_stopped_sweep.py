"""SIGTERM to a sweep, or to the command that runs a table: the jobs save and end, and no process is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.conftest import EXACT, ROOT

LONG = [EXACT, "data=toy", "data.train_size=4000", "data.dev_size=40", "data.test_size=40"]
LONG += ["data.batch_size=4", "trainer.val_every=null", "trainer.save_every=1", "logger=csv"]

TABLE = f"""
title: Two rows
needs: up to 6 min
seeds: [1]
columns: [dev]
rows:
  pearson: {["model=tiny_bert", *LONG, "loss=pearson"]}
  cosent: {["model=tiny_bert", *LONG, "loss=cosent"]}
"""

COMMANDS = {
    "sweep": ["train.py", "-m", "model=tiny_bert", *LONG, "seed=1,2", "hydra.launcher.jobs=2", "name=runs"],
    "table": [
        "-m",
        "sts_lightning.cli.main",
        "reproduce",
        "run",
        "two_rows",
        "--jobs",
        "2",
        "--folder",
        "runs/runs",
    ],
}


@pytest.mark.parametrize("command", list(COMMANDS))
def test_sigterm_leaves_no_process(command: str, tmp_path: Path) -> None:
    for name in ("train.py", "eval.py"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    (tmp_path / "conf" / "reproduce" / "two_rows.yaml").write_text(TABLE)
    parent = subprocess.Popen(
        [sys.executable, *COMMANDS[command]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", str(ROOT / "src"))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    saved: list[Path] = []
    deadline = time.monotonic() + 400
    while not saved and time.monotonic() < deadline and parent.poll() is None:
        saved = list(tmp_path.glob("runs/runs/*/checkpoints/last.ckpt"))
        time.sleep(0.05)
    assert saved, parent.communicate(timeout=200)[0]
    started = psutil.Process(parent.pid).children(recursive=True)
    # bitsandbytes lets older versions of torch start processes that compile; these have to end too.
    assert sum("train.py" in " ".join(process.cmdline()) for process in started) == 2
    parent.send_signal(signal.SIGTERM)
    output, _ = parent.communicate(timeout=200)
    assert parent.returncode == 143, output
    assert "stopped by SIGTERM; 2 of 2 jobs are left. The same command resumes them." in output
    assert not [process for process in started if process.is_running()]
    told = (saved[0].parents[1] / "output.log").read_text()
    assert "stopped by SIGTERM after step " in told
    assert "Traceback" not in told
    assert not list(tmp_path.glob("runs/runs/*/metrics.json"))

"""The commands, run as a user runs them."""

from __future__ import annotations

import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig

from tests.conftest import ROOT, SHORT_RUN

Cli = Callable[..., subprocess.CompletedProcess[str]]


def test_help_needs_no_torch(cli: Cli) -> None:
    done = cli("train.py", "--help")
    assert done.returncode == 0
    assert "loss: angle, bixse, concordance, contrastive_tension, cosent, " in " ".join(done.stdout.split())
    code = "import runpy, sys\nsys.argv = ['train.py', '--help']\n"
    code += "try:\n  runpy.run_path('train.py', run_name='__main__')\n"
    code += "except SystemExit:\n  pass\nassert 'torch' not in sys.modules"
    silent = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    assert silent.returncode == 0


@pytest.mark.parametrize(
    ("script", "wrong"),
    [
        ("train.py", "dev=suit"),
        ("train.py", "optim.schedule=x"),
        ("train.py", "optim.schedule=y path=../qa.csv"),
        ("train.py", "precision=x optim.lr=-1 loss=l1 loss.clamp=7"),
        ("eval.py", "suite=x"),
    ],
)
def test_a_wrong_choice_is_rejected_before_torch_is_imported(script: str, wrong: str, tmp_path: Path) -> None:
    rows = "".join(f"Where is room {number}?,It is on floor {number}.\n" for number in range(10))
    (tmp_path / "qa.csv").write_text(f"question,answer\n{rows}")
    tmp_path /= "empty"
    tmp_path.mkdir()
    wrong, *others = wrong.split()
    code = f"import runpy, sys\nsys.modules['torch'] = None\nsys.argv = {[script, wrong, *others]}\n"
    code += f"runpy.run_path({str(ROOT / script)!r}, run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=False, text=True
    )
    assert not list(tmp_path.iterdir())
    assert done.returncode == 1
    assert f"{wrong}: Input should be" in done.stderr
    assert done.stderr.startswith("error: 2 mistakes:" if len(others) > 1 else f"error: {wrong}")


def test_train_then_evaluate_the_run(cli: Cli, tmp_path: Path) -> None:
    done = cli(
        "train.py",
        *SHORT_RUN,
        "trainer.max_steps=4",
        "hydra.run.dir=run",
        "evaluation.untuned=true",
        fresh=True,
    )
    assert done.returncode == 0, done.stderr
    assert "gain" in done.stdout
    assert "results, plots and weights: run" in done.stdout
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["test_untuned"] is not None
    again = cli("train.py", "resume=run", fresh=True)
    assert again.returncode == 0
    assert re.match(
        r"run has finished: dev [\d.]+, toy [\d.]+, average [\d.]+; results in run/metrics\.json$",
        again.stdout,
    )
    other = cli("train.py", "resume=run", "seed=3")
    assert "leave out seed=3. run has finished. To train on" in other.stderr
    assert "new run with its model and data, and init_from=run." in other.stderr
    further = cli("train.py", *SHORT_RUN, "trainer.max_steps=4", "hydra.run.dir=more", "init_from=run")
    assert further.returncode == 0, further.stderr


@pytest.fixture
def script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., tuple[object, str]]]:
    """Runs train.py or eval.py in an empty folder, but in this process, to a mistake: status and message."""
    quiet = ["hydra/job_logging=none", "hydra/hydra_logging=none"]
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    monkeypatch.chdir(tmp_path)

    def call(name: str, *arguments: str) -> tuple[object, str]:
        GlobalHydra.instance().clear()
        monkeypatch.setattr(sys, "argv", [name, *arguments, *quiet])
        with pytest.raises(SystemExit) as left:
            runpy.run_path(str(ROOT / name), run_name="__main__")
        code, said = left.value.code, capsys.readouterr().err
        return (1, f"{said}{code}\n") if isinstance(code, str) else (code, said)  # as Python ends

    yield call
    GlobalHydra.instance().clear()
    HydraConfig.instance().cfg = None


def test_ctrl_c_then_resume(tmp_path: Path, cli: Cli) -> None:
    arguments = [*SHORT_RUN, "data.batch_size=4", "trainer.max_epochs=200", "hydra.run.dir=run"]
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "train.py"), *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("step 16"):
                break
        process.send_signal(signal.SIGINT)
        started = time.monotonic()
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert time.monotonic() - started < 30
    assert "stopped by Ctrl-C after step" in errors
    assert "train resume=run" in errors
    assert "Traceback" not in errors
    assert (tmp_path / "run" / "checkpoints" / "last.ckpt").is_file()
    assert not (tmp_path / "run" / "metrics.json").exists()
    config = (tmp_path / "run" / "config.yaml").read_text()
    (tmp_path / "run" / "config.yaml").write_text(config.replace("max_epochs: 200", "max_epochs: 1"))
    done = cli("train.py", "resume=run")
    assert "resuming after step" in done.stdout, done.stderr

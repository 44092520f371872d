"""Runs of several processes through the command line, on the CPU."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from omegaconf import DictConfig

from sts_lightning.workflows.start import train_in
from tests.conftest import ROOT
from tests.runs.test_processes import SETTINGS, Cli, same, several
from tests.support.interruptions import PowerCut
from tests.support.whole_runs import metrics, same_results, weights


def test_stopped_and_resumed_equals_uninterrupted(cli: Cli, tmp_path: Path) -> None:
    """With dropout, whose random numbers each process has of its own; Ctrl-C reaches all of them."""
    how = [
        *SETTINGS,
        *several(2),
        "trainer.max_epochs=12",
        "trainer.save_every=7",
        "evaluation.final=false",
    ]
    assert cli("train.py", *how, "hydra.run.dir=whole").returncode == 0
    command = [sys.executable, str(ROOT / "train.py"), *how, "hydra.run.dir=cut"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
    )
    last = tmp_path / "cut" / "checkpoints" / "last.ckpt"
    deadline = time.monotonic() + 120
    while not last.exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert b"train resume=cut" in errors
    states = torch.load(last, weights_only=True)["callbacks"]["RandomState"]["processes"]
    assert not torch.equal(states[0]["cpu"], states[1]["cpu"])
    assert cli("train.py", "resume=cut").returncode == 0
    same_results(tmp_path / "whole", tmp_path / "cut")


def test_two_processes_train_on_quantised_weights_as_one_does(
    cli: Cli, config: Callable[..., DictConfig], tmp_path: Path
) -> None:
    how = [
        *SETTINGS,
        "model=tiny_mistral",
        "prompt=eol",
        "model.quantization=4bit",
        "model.adapter.lora_dropout=0",
        "data.train_size=40",
        "data.dev_size=8",
        "data.test_size=8",
        "trainer.micro_batch_size=auto",
    ]
    train_in(tmp_path / "one", config(*how))
    done = cli("train.py", *how, *several(2), "hydra.run.dir=two")
    assert done.returncode == 0, done.stderr
    same(tmp_path / "one", tmp_path / "two")
    trained = [value for name, value in weights(tmp_path / "two").items() if "lora_B" in name]  # from zero
    assert all(value.abs().max() > 1e-4 for value in trained)
    assert metrics(tmp_path / "two")["processes"] == 2


SLOW_LOGGER = """
import os
import signal
import time

from lightning.pytorch.loggers import TensorBoardLogger

from sts_lightning.cli.hydra_app import run
from sts_lightning.training.callbacks.checkpoints import RunRecorder

agree = RunRecorder._agree


def agree_to_stop(self, trainer):
    if trainer.global_step == 4 and self.stop.number is None:
        signal.raise_signal(signal.SIGINT)
    agree(self, trainer)


RunRecorder._agree = agree_to_stop
if os.environ.get("LOCAL_RANK", "0") == "0":
    TensorBoardLogger.finalize = lambda self, status: time.sleep(12)
run("train")
"""
"""A run that is stopped, and whose logger takes longer than Lightning's look at the other processes."""


def test_a_stopped_run_waits_for_its_loggers(tmp_path: Path) -> None:
    how = [*SETTINGS, *several(2), "evaluation.final=false", "logger=tensorboard", "hydra.run.dir=cut"]
    script = tmp_path / "slow.py"
    script.write_text(SLOW_LOGGER)
    done = subprocess.run(
        [sys.executable, str(script), *how], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 128 + signal.SIGINT, done.stderr
    assert done.stderr.count("stopped by Ctrl-C after step 4. Resume with") == 1
    assert done.stdout.count("Ctrl-C: stopping after") == 1


LATE_STOP = """
import os
import signal

from sts_lightning.cli.hydra_app import run
from sts_lightning.training.callbacks.checkpoints import RunRecorder

agree = RunRecorder._agree


def agree_too_early(self, trainer):
    agree(self, trainer)
    if trainer.global_rank == 1 and str(trainer.global_step) == os.environ["STOP_AT"]:
        if self.stop.number is None:
            signal.raise_signal(signal.SIGINT)


RunRecorder._agree = agree_too_early
run("train")
"""
"""A run whose second process gets Ctrl-C right after the processes agreed to go on."""


@pytest.mark.parametrize("step", [4, 7])  # of a checkpoint, and between two
def test_a_stop_that_one_process_hears_later_stops_all_at_one_step(step: int, tmp_path: Path) -> None:
    how = [*SETTINGS, *several(2), "trainer.max_epochs=2", "trainer.save_every=4", "evaluation.final=false"]
    script = tmp_path / "late.py"
    script.write_text(LATE_STOP)
    done = subprocess.run(
        [sys.executable, str(script), *how, "hydra.run.dir=cut"],
        cwd=tmp_path,
        env={**os.environ, "STOP_AT": str(step)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert "stopped by SIGTERM after step" in done.stderr
    checkpoint = torch.load(tmp_path / "cut" / "checkpoints" / "last.ckpt", weights_only=True)
    assert checkpoint["global_step"] in (step, step + 1)
    assert f"after step {checkpoint['global_step']}." in done.stderr


@pytest.mark.parametrize("division", ["trainer.micro_batch_size=2", "trainer.devices=2"])
def test_resumed_with_another_division_of_the_batch(
    division: str, cli: Cli, config: Callable[..., DictConfig], tmp_path: Path
) -> None:
    how = [*SETTINGS, *several(1), "model.dropout=0", "trainer.save_every=3"]
    train_in(tmp_path / "whole", config(*how))
    with pytest.raises(RuntimeError, match="power cut"):
        train_in(tmp_path / "cut", config(*how), callbacks=[PowerCut(4)])
    done = cli("train.py", f"resume={tmp_path / 'cut'}", division)
    assert done.returncode == 0, done.stderr
    same(tmp_path / "whole", tmp_path / "cut")
    found = metrics(tmp_path / "cut")
    assert (found["processes"], found["micro_batch_size"]) == ((1, 2) if "micro" in division else (2, None))

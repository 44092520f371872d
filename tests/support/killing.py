"""The command line in processes killed at random moments, and what two runs share to the bit."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch

from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.predictions import load_predictions
from tests.conftest import ROOT
from tests.support.whole_runs import same_results

TIMEOUT = 1800.0
"""Seconds after which a process counts as hanging."""

TIMED = {"wall_seconds", "peak_memory_bytes", "resumed"}
"""Entries of metrics.json that tell how a run went, not what it found."""


@dataclass(frozen=True)
class Ended:
    """A process that has ended: its exit status as `subprocess` gives it, and the processor time it took."""

    status: int
    seconds: float


class Starter:
    """Starts `python train.py`, each time in a session of its own, and kills it where asked to.

    Args:
        warm: Whether the processes are forked from one that has imported the libraries, which spares most of
            the time of a short run; otherwise each is a new interpreter.
    """

    def __init__(self, warm: bool) -> None:
        self.server: subprocess.Popen[str] | None = None
        if warm:
            self.server = subprocess.Popen(
                [sys.executable, "-m", "tests.support.killing"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )

    def close(self) -> None:
        if self.server is not None:
            assert self.server.stdin is not None
            self.server.stdin.close()
            self.server.wait(60)

    def run(
        self, folder: Path, output: Path, *arguments: str, number: int | None = None, at: float = 0.0
    ) -> Ended:
        """Run train.py with arguments in a folder.

        Args:
            folder: Working directory.
            output: File that its output is added to.
            arguments: Command-line arguments.
            number: Signal to send; None: let it end.
            at: Seconds of its processor time after which the signal is sent.
        """
        order = {"folder": str(folder), "output": str(output), "arguments": arguments}
        order |= {"number": number, "at": at}
        if self.server is None:
            process = subprocess.Popen(
                [sys.executable, str(ROOT / "train.py"), *arguments],
                cwd=folder,
                stdout=output.open("ab"),
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            return _follow(process.pid, number, at)
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(json.dumps(order) + "\n")
        self.server.stdin.flush()
        return Ended(*json.loads(self.server.stdout.readline()))


def _follow(pid: int, number: int | None, at: float) -> Ended:
    """Wait for a child process, and send it a signal once it has taken so many seconds of processor time."""
    process, seconds, deadline = psutil.Process(pid), 0.0, time.monotonic() + TIMEOUT
    while True:
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            seconds = times.user + times.system
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            break
        if number is not None and seconds >= at:
            os.kill(pid, number)
            number = None
        if time.monotonic() > deadline:
            os.killpg(pid, signal.SIGKILL)
        time.sleep(0.002)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, 0)
        raise AssertionError(f"a process of {pid} is left behind")
    return Ended(os.waitstatus_to_exitcode(status), seconds)


def serve() -> None:
    """Fork for each line of stdin; a child runs train.py as its own main program.

    What a child that ran to its end has imported, later ones find imported.
    """
    for line in sys.stdin:
        order = json.loads(line)
        imported = Path(order["output"]).with_suffix(".modules")
        pid = os.fork()
        if pid == 0:
            os.setsid()
            os.chdir(order["folder"])
            descriptor = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            RunFolder.remove_state = lambda run: None  # its state is compared, too
            sys.argv = [str(ROOT / "train.py"), *order["arguments"]]
            runpy.run_path(sys.argv[0], run_name="__main__")
            if order["number"] is None:
                imported.write_text("\n".join(name for name in sys.modules if name != "__main__"))
            return
        ended = _follow(pid, order["number"], order["at"])
        for name in imported.read_text().splitlines() if imported.exists() else ():
            if name not in sys.modules:
                with contextlib.suppress(Exception):  # a module that its package makes itself
                    importlib.import_module(name)
        imported.unlink(missing_ok=True)
        sys.stdout.write(json.dumps([ended.status, ended.seconds]) + "\n")
        sys.stdout.flush()


def files_of(run: Path) -> set[str]:
    """Files of a run folder, without those of TensorBoard, one for each start, and of the test.

    Also without plots and page, which a run that was killed after its results lacks.
    """
    paths = (path.relative_to(run) for path in run.rglob("*") if path.is_file())
    shown = ("tensorboard", "plots", "report.html")
    return {str(path) for path in paths if path.parts[0] not in shown and ".report.html." not in path.name}


def tensors(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of nested containers by their path."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from tensors(value, f"{path}.{key}")
    elif isinstance(node, list | tuple):
        for index, value in enumerate(node):
            yield from tensors(value, f"{path}.{index}")
    else:
        yield path, node


def same_to_the_bit(one: Path, two: Path) -> None:
    """Hold two runs to the same files, weights, optimizer state, metrics, predictions, rows and plots."""
    assert files_of(one) == files_of(two)
    same_results(one, two)
    for which in ("best", "last"):
        left, right = (RunFolder(run).read_checkpoint(which) for run in (one, two))
        for key in ("state_dict", "optimizer_states", "lr_schedulers", "global_step", "epoch"):
            assert (key in left) == (key in right)
            for (name, first), (other, second) in zip(
                tensors(left.get(key)), tensors(right.get(key)), strict=True
            ):
                assert name == other
                same = torch.equal(first, second) if isinstance(first, torch.Tensor) else first == second
                assert same, f"{which}.ckpt: {key}{name}"
    metrics = [json.loads((run / "metrics.json").read_text()) for run in (one, two)]
    for values in metrics:
        del values["machine"]["reasons"]  # a resumed run takes what was decided when it began
    assert metrics[0].keys() == metrics[1].keys()
    for key in metrics[0].keys() - TIMED:
        assert metrics[0][key] == metrics[1][key], key
    predictions = [load_predictions(RunFolder(run)) for run in (one, two)]
    assert predictions[0].keys() == predictions[1].keys()
    for task, arrays in predictions[0].items():
        for first, second in zip(arrays, predictions[1][task], strict=True):
            assert np.array_equal(first, second), task
    for plot in (two / "plots").glob("[!.]*"):
        assert (one / "plots" / plot.name).read_bytes() == plot.read_bytes(), plot.name


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    serve()

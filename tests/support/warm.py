"""Commands in processes that have their imports behind them, forked from one that has only imported.

An interpreter of its own takes most of a short command's time to import torch, transformers and Lightning.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PRELOADED = [
    "hydra",
    "matplotlib.figure",
    "matplotlib.backends.backend_agg",
    "sts_lightning.cli.hydra_app",
    "sts_lightning.testing.tiny_bert",
    "sts_lightning.workflows.evaluate",
    "sts_lightning.workflows.start",
    "torch.utils.tensorboard",
    "transformers.models.bert.modeling_bert",
]


class WarmInterpreter:
    """Runs scripts as ``python SCRIPT ARGUMENTS`` would, each in a process of its own.

    A script sees the environment of the moment; only what reads a variable while it is imported saw that of
    the first script.
    """

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOADED)

    def run(
        self, script: Path, arguments: Sequence[str], folder: Path, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a script to its end.

        Args:
            script: File of the script.
            arguments: Command line after the script's name.
            folder: Working directory; what the script prints is kept in files beside it.
            timeout: Seconds after which the process is killed.

        Raises:
            subprocess.TimeoutExpired: The script took longer.
        """
        command = [str(script), *arguments]
        output, errors = (folder.with_name(f"{folder.name}.{stream}") for stream in ("out", "err"))
        for path in (output, errors):
            path.touch()
        process = self._context.Process(
            target=_work, args=(command, str(folder), dict(os.environ), str(output), str(errors))
        )
        process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(command, timeout, output.read_bytes(), errors.read_bytes())
        assert process.exitcode is not None
        return subprocess.CompletedProcess(command, process.exitcode, output.read_text(), errors.read_text())


def _work(command: list[str], folder: str, environment: dict[str, str], output: str, errors: str) -> None:
    """Become what ``python SCRIPT ...`` is when its first line runs, but for the imports."""
    for descriptor, path in ((1, output), (2, errors)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, descriptor)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    multiprocessing.set_start_method(None, force=True)  # the platform's, not that of this process
    sys.argv = command
    sys.path[0] = str(Path(command[0]).parent)
    runpy.run_path(command[0], run_name="__main__")

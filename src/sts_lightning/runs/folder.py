"""A run folder: file names, and how each file is read and written.

==========================  ===========================================================================
config.yaml                 the composed configuration, resolved
files.json                  SHA-256 of the user's files that the run was started with, by setting
metrics.json                scores, data counts, seed, versions, time, memory; marks a run as finished
history.csv                 one row for each logged step
predictions.npz             cosines and gold scores of the test pairs, and scores of test queries
dev.npz                     the same of the dev data, before training and of the selected weights
model/                      the model with the selected weights, a folder of sentence-transformers
checkpoints/final/          the same with the weights of the last step, if they are others
checkpoints/step_N/         the same with those of step N, if trainer.keep_every asks for them
checkpoints/best.ckpt       while the run trains: trained parameters at the best dev score
checkpoints/last.ckpt       while the run trains, or with trainer.keep_state: everything needed to resume
plots/*.png, train.log      for the user
mlflow.db, mlflow_run       with logger=mlflow: its store, and the run in it that a resumed run goes on in
report.html                 scores, plots, pairs of disagreement, cost and settings, on one page
==========================  ===========================================================================
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import itertools
import json
import os
import re
import shutil
import sys
import time
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.check import path_override
from sts_lightning.config.schema import COMMAND, EvalConfig, TrainConfig
from sts_lightning.config.stored import adapt, check, read_settings
from sts_lightning.core.errors import CheckpointError, ConfigError, TrainingError
from sts_lightning.core.files import check_finite, read_json, replacing, write_atomic
from sts_lightning.core.processes import batch_job, is_first_process, requeued
from sts_lightning.runs.metrics import RunMetrics, read_metrics

State = Literal["new", "started", "interrupted", "finished"]
"""Progress of a run.

``finished``: the results exist. ``interrupted``: there is a checkpoint to resume from.
``started``: there is a configuration only. ``new``: none of these.
"""

Checkpoint = Literal["best", "last"] | int
"""A checkpoint: that of the best dev score, the last one, or (of 0.3) that of a step."""

Which = Literal["best", "final"] | int
"""Weights of a run: those of the best dev score, those of the last step, or those of a step."""

OF_MODELS = ("sts_lightning.json", "modules.json", "adapter_config.json", "config.json")
"""Files of exports and other models."""


STORED = (TrainConfig.model_fields.keys() | EvalConfig.model_fields.keys()) - set(COMMAND)
"""Settings of a run or an evaluation that its folder stores."""

STAGES = "stages.yaml"
"""File of 0.3 beside the folders of its stages, which are runs."""


class RunFolder:
    """The folder of a run or an evaluation.

    Args:
        path: Path of the folder, which need not exist.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config_file = self.path / "config.yaml"
        self.files_file = self.path / "files.json"
        self.metrics_file = self.path / "metrics.json"
        self.history_file = self.path / "history.csv"
        self.predictions_file = self.path / "predictions.npz"
        self.dev_file = self.path / "dev.npz"
        self.log_file = self.path / "train.log"
        self.output_file = self.path / "output.log"
        self.checkpoints = self.path / "checkpoints"
        self.plots = self.path / "plots"
        self.page_file = self.path / "report.html"
        self.mlflow_run = self.path / "mlflow_run"

    @property
    def name(self) -> str:
        """Path relative to the working directory, if it is inside."""
        here = Path.cwd()
        return str(self.path.relative_to(here) if self.path.is_relative_to(here) else self.path)

    def checkpoint(self, which: Checkpoint) -> Path:
        """Return the path of the best weights by dev score, of the state to resume from, or of a step."""
        return self.checkpoints / (f"step_{which}.ckpt" if isinstance(which, int) else f"{which}.ckpt")

    def model(self, which: Which = "best") -> Path:
        """Return the path of a model folder; the weights of the last step may be the selected ones."""
        path = self.checkpoints / (f"step_{which}" if isinstance(which, int) else "final")
        return self.path / "model" if which == "best" or (which == "final" and not path.is_dir()) else path

    def kept_steps(self) -> list[int]:
        """Return the steps whose weights were kept, ascending."""
        stems = {path.stem.removeprefix("step_") for path in self.checkpoints.glob("step_*")}
        return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdecimal())

    @property
    def state(self) -> State:
        """Progress of the run."""
        if self.metrics_file.is_file():
            return "finished"
        if self.checkpoint("last").is_file():
            return "interrupted"
        return "started" if self.config_file.is_file() else "new"

    @property
    def finished(self) -> bool:
        """Whether the results exist."""
        return self.state == "finished"

    def start(self, init_from: str) -> RunFolder:
        """Return the folder of the run that this one starts from; moved along with it, it lies beside it.

        Args:
            init_from: The folder as this run's configuration names it.
        """
        given, beside = RunFolder(init_from), RunFolder(self.path.parent / Path(init_from).name)
        return beside if given.state == "new" and beside.state != "new" else given

    def load_config(self, trust: bool = False) -> DictConfig:
        """Read the configuration of the run to build its classes, as resuming does; see `settings`.

        The run may be of another version; see `config.stored`.

        Args:
            trust: Whether it may ask for anything; see `config.stored`.

        Raises:
            CheckpointError: This is not a run folder, or the configuration is broken or cannot be understood.
            UntrustedError: The configuration needs the user's word.
        """
        return self._load(self.settings(), trust)

    def load_part(self, *built: str) -> DictConfig:
        """Read the configuration of the run to build its model and some groups alone; others are left out.

        Args:
            *built: The groups, such as ``data``.

        Raises:
            CheckpointError: See `load_config`.
            UntrustedError: One of them is not of a class of this package.
        """
        left_out = {"data", "loss", "regularizer", "auxiliary"} - {*built}
        empty: dict[str, Any] = {"logger": {}, "callbacks": {}, **dict.fromkeys(left_out)}
        return self._load({**self.settings(), **empty}, trust=False)

    def _load(self, values: dict[Any, Any], trust: bool) -> DictConfig:
        source = str(self.config_file)
        values.pop("stages", None)  # of 0.3: empty in what a run is built from
        check(values, source, trust)
        return adapt(values, source)

    def settings(self) -> dict[Any, Any]:
        """Read the configuration as plain values, from which nothing can be built.

        Raises:
            CheckpointError: The configuration is missing or broken.
        """
        if not self.config_file.is_file():
            raise missing_run_error(self.path, self.config_file.name)
        return read_settings(self.config_file)

    def digests(self) -> dict[str, str]:
        """Return the digests of the user's files that the run was started with; empty if none are stored.

        Raises:
            CheckpointError: The file of the results is broken.
        """
        if self.metrics_file.is_file():
            return dict(self.metrics().content.get("files", {}))
        return dict(read_json(self.files_file)) if self.files_file.is_file() else {}

    def save_config(self, cfg: DictConfig, files: Mapping[str, str] | None = None) -> None:
        """Write the configuration with all interpolations resolved, without what is of the command alone.

        Args:
            cfg: The configuration.
            files: Digests of the user's files; None: those that are stored, if any, stay.
        """
        if files:
            write_atomic(self.files_file, json.dumps(files))
        # A setting that was added for others to refer to, as +width=64, has been read.
        stored = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key in STORED])
        write_atomic(self.config_file, OmegaConf.to_yaml(stored, resolve=True))

    def metrics(self) -> RunMetrics:
        """Read the results.

        Raises:
            CheckpointError: The file is missing or broken.
        """
        if self.path.is_dir() and not (self.metrics_file.exists() or self.config_file.exists()):
            raise missing_run_error(self.path, self.config_file.name)
        return read_metrics(self.metrics_file)

    def known_metrics(self) -> RunMetrics:
        """Return the results of a run; empty ones if they are not known.

        Weights may come without results, as those of a step while the run trains.
        """
        try:
            return self.metrics()
        except (CheckpointError, OSError):
            return RunMetrics(None)

    def costs(self) -> list[dict[str, Any]]:
        """Return folder, duration and peak memory of this run and of those that it started from, in order.

        What is not known is None.
        """
        details = self.known_metrics().details
        cost = {name: details.get(name) for name in ("wall_seconds", "peak_memory_bytes")}
        return [*(details.get("earlier") or []), {"run": str(self.path), **cost}]

    def save_metrics(self, metrics: RunMetrics) -> None:
        """Write the results, which marks the run as finished.

        Raises:
            TrainingError: A number is NaN or infinite, which no reader of JSON has to accept.
        """
        dev = {} if metrics.dev is None else {"dev": metrics.dev}
        contents = {"test": metrics.test, **dev, **metrics.details}
        try:
            check_finite(contents)
        except ValueError as error:
            raise TrainingError(f"the results are not written to {self.metrics_file}: {error}.") from error
        write_atomic(self.metrics_file, json.dumps(contents, indent=2) + "\n")

    def history(self) -> list[dict[str, Any]]:
        """Read the rows of the history, without empty values; none if there is no file.

        Raises:
            CheckpointError: The file cannot be read, or a row holds something else than numbers.
        """
        if not self.history_file.is_file():
            return []
        rows = []
        with self.history_file.open(encoding="utf-8-sig", newline="") as file:
            # A last row without an end is of 0.3, whose process was killed or whose disk was full.
            reader = csv.DictReader((line for line in file if line[-1] in "\r\n"), strict=True)
            try:
                for values in reader:
                    row = {name: float(value) for name, value in values.items() if value}
                    rows.append({**row, "step": int(row["step"])})
            except (TypeError, ValueError, KeyError, csv.Error) as error:  # TypeError: too many values
                place = f"{self.history_file}, line {reader.reader.line_num or 1}"
                raise CheckpointError(f"{place}: cannot be read ({error}).") from error
        return rows

    def save_history(self, rows: Iterable[Mapping[str, float]]) -> None:
        """Write the history: a row for each step, with a column for each metric that any of them has."""
        rows = list(rows)
        text = io.StringIO()
        writer = csv.DictWriter(text, list(dict.fromkeys(itertools.chain(*rows))), lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda row: row["step"]))
        write_atomic(self.history_file, text.getvalue().encode())

    def read_checkpoint(self, which: Checkpoint, mmap: bool = False, whole: bool = True) -> dict[str, Any]:
        """Read a checkpoint to the CPU, without executing anything in it.

        Args:
            which: Checkpoint.
            mmap: Whether tensors stay in the file until their values are read.
            whole: Whether all of the file is read, to compare its check sums.

        Raises:
            CheckpointError: The checkpoint is missing or broken.
        """
        path = self.checkpoint(which)
        import torch  # not needed by a sweep, which starts other processes

        try:
            checkpoint: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
            damaged = zipfile.ZipFile(path).testzip() if whole else None  # torch checks no sums
        except Exception as error:  # the unpickler of torch raises various errors
            raise CheckpointError(f"{path} is not a readable checkpoint ({type(error).__name__}).") from error
        if damaged is not None:
            raise CheckpointError(f"{path} is broken: the check sum of its part {damaged} is wrong.")
        if "state_dict" not in checkpoint:
            raise CheckpointError(f"{path} is not a checkpoint of a run: it has no state_dict.")
        return checkpoint

    def remove_state(self) -> None:
        """Remove what only a run that trains needs; a run that is killed before keeps it."""
        self.checkpoint("best").unlink(missing_ok=True)
        self.checkpoint("last").unlink(missing_ok=True)

    def why_missing(self, which: Which) -> str:
        """Return the end of a message that weights are missing: why, and what to do."""
        if self.finished or isinstance(which, int):
            return f"; steps kept (trainer.keep_every): {self.kept_steps() or 'none'}"
        return f": the run has not finished; {path_override('resume', self.name)} finishes it"

    def remove_temporaries(self) -> None:
        """Remove what has a temporary name, which a process that was killed while writing has left.

        Only the process that has locked the folder may do this.
        """
        for folder in (self.path, self.checkpoints, self.plots):
            for path in folder.glob(".*"):
                if path.is_file() and re.fullmatch(r"\..+\.[0-9]+", path.name):
                    path.unlink()
                elif re.fullmatch(r"\.(model|final|step_[0-9]+)\.\w+", path.name):
                    shutil.rmtree(path)

    def remove_if_empty(self) -> None:
        """Remove the folder if it is empty, and its empty parents below the working directory."""
        with contextlib.suppress(OSError):
            if Path(self.name).is_absolute():
                self.path.rmdir()
            else:
                os.removedirs(self.name)


def write_checkpoint(path: Path, content: Mapping[str, Any]) -> None:
    """Write a checkpoint under a temporary name and rename it: a full disk leaves an earlier file as it is.

    Raises:
        OSError: It could not be written.
    """
    import torch

    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, temporary.open("wb") as file:
        try:
            torch.save(dict(content), file)
        except RuntimeError as error:  # torch's error hides that of the system, such as a full disk
            if isinstance(error.__context__, OSError):
                raise error.__context__ from error
            raise


def missing_run_error(folder: Path, config_file: str) -> CheckpointError:
    """Return the error about a folder without the configuration of a run, or that does not exist.

    It says so if a model is there, and asks for a run folder in it or around it.

    Args:
        folder: The folder.
        config_file: Name of the file that it lacks.
    """
    if not folder.exists():
        return CheckpointError(f"{folder} is not a run folder: it does not exist.")
    if (folder / STAGES).is_file():
        last = list(read_settings(folder / STAGES))[-1]
        return CheckpointError(f"{folder} holds stages of 0.3; open {folder / str(last)}.")
    message = f"{folder} is not a run folder: it has no {config_file}."
    return CheckpointError(message, hint=_suggest_folder(folder, config_file))


def _suggest_folder(folder: Path, config_file: str) -> str | None:
    if any((folder / name).is_file() for name in OF_MODELS):
        return f"It holds a model: name it by model=encoder {path_override('model.name', folder)}."
    inside = [path for depth in ("*", "*/*") for path in folder.glob(f"{depth}/{config_file}")]
    if not inside:
        return None
    newest = max(inside, key=lambda path: path.stat().st_mtime).parent
    return f"Did you mean {newest}{'' if len(inside) == 1 else ', the newest in it'}?"


def check_distinct(runs: Sequence[Path], key: str = "runs") -> None:
    """Reject a list with a run that would count twice, by whatever path.

    Args:
        runs: Run folders as the user named them.
        key: What the list is called.

    Raises:
        ConfigError: A run is named twice.
    """
    real = [os.path.realpath(run) for run in runs]
    for run, path in zip(runs, real, strict=True):
        if real.count(path) > 1:
            raise ConfigError(f"{key}: {run} is named twice, and would count as often.", key=key)


def timed_folder(parent: str, claim: bool = True) -> str:
    """Make a folder named by the time, with a number where another command of the same second has made it.

    Args:
        parent: Folder of the run folders.
        claim: Whether to make it, as the first process of a run does; a further one does not take another.
    """
    first = f"{parent}/{time.strftime('%Y-%m-%d_%H-%M-%S')}"
    for number in itertools.count(1):
        folder = first if number == 1 else f"{first}-{number}"
        try:
            if claim:
                Path(folder).mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError:  # Hydra meets it as well, where it has a message
            pass
        break
    return folder


def folder_of_command(parent: str, arguments: Sequence[str] | None = None) -> str:
    """Return the folder of a new run, see `timed_folder`, or, in a batch job, so that a later start finds it.

    Where the same command has finished in the same job, as in an allocation in which one works, the name has
    a number. A requeued job takes the last folder, which its earlier start left.

    Args:
        parent: Folder of the run folders.
        arguments: Arguments of the command, of which a batch job may have several; by default those of this
            process.
    """
    job = batch_job()
    if job is None:
        return timed_folder(parent, claim=is_first_process())
    text = "\0".join(sys.argv[1:] if arguments is None else arguments)
    first = f"{parent}/slurm-{job}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
    folder, number = first, 1
    while RunFolder(folder).finished:
        number += 1
        later = f"{first}-{number}"
        if requeued() and not Path(later).exists():
            break
        folder = later
    return folder

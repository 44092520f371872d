"""Runs of a figure: their systems, and the numbers that are drawn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from omegaconf import DictConfig, OmegaConf

from sts_lightning.analysis.figures import Trace
from sts_lightning.analysis.phases import Phases, find_phases
from sts_lightning.analysis.system_figures import System
from sts_lightning.conf_folders import command_line
from sts_lightning.config.identity import without_volatile
from sts_lightning.config.keys import path_override
from sts_lightning.config.trust import NOTHING, Trust
from sts_lightning.errors import CheckpointError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.no_run import no_run

Sentences = Literal["test", "dev"]
"""Sentences whose rank and score are drawn: those of the test sets, or the dev pairs of the rank monitor."""

MONITORED = "train with callbacks=rank_monitor."


@dataclass(frozen=True)
class FigureRun:
    """A finished run of a figure.

    Attributes:
        folder: Folder of the run.
        system: Name of the system, which runs of other seeds share.
        seed: Random seed.
        reduced: Whether it was trained with rank reduction.
        method: What systems with and without rank reduction have in common.
    """

    folder: RunFolder
    system: str
    seed: int
    reduced: bool
    method: str


def name_runs(folders: Sequence[RunFolder], trust: Trust = NOTHING) -> list[FigureRun]:
    """Name the runs by their configurations; runs that differ in the seed alone are of one system.

    A system is named after its experiment, with ``+ RR`` if it was trained with rank reduction, and with the
    settings that tell it from another of that name.

    Args:
        folders: Folders of finished runs.
        trust: Classes and settings that their configurations may contain.

    Raises:
        CheckpointError: A folder is not one of a finished run.
    """
    folders = [folder.last_stage() for folder in folders]
    read = [_finished(folder).load_config(trust) for folder in folders]
    settings = [_settings(cfg) for cfg in read]
    short = [f"{cfg.name} + RR" if _reduced(cfg) else str(cfg.name) for cfg in read]
    names = []
    for name, own in zip(short, settings, strict=True):
        others = [theirs for label, theirs in zip(short, settings, strict=True) if label == name]
        differing = sorted(key for key in own if any(theirs.get(key) != own[key] for theirs in others))
        names.append(", ".join([name, *(f"{key}={own[key]}" for key in differing)]))
    return [described(folder, cfg, name) for folder, cfg, name in zip(folders, read, names, strict=True)]


def described(folder: RunFolder, cfg: DictConfig, system: str) -> FigureRun:
    """Return a run with the properties that its configuration tells.

    Args:
        folder: Folder of the run.
        cfg: Its configuration.
        system: Name of its system.
    """
    method = json.dumps([cfg.name, OmegaConf.to_container(cfg.model)], sort_keys=True, default=str)
    return FigureRun(folder, system, int(cfg.seed), _reduced(cfg), method)


def read_run(folder: RunFolder, system: str, trust: Trust = NOTHING) -> FigureRun:
    """Read a run whose system is known.

    Raises:
        CheckpointError: The folder is not one of a finished run.
    """
    last = _finished(folder.last_stage())
    return described(last, last.load_config(trust), system)


def _finished(folder: RunFolder) -> RunFolder:
    if not folder.config_file.is_file():
        raise no_run(Path(folder.name), folder.config_file.name)
    if not folder.finished:
        command = command_line("train", path_override("resume", folder.name))
        raise CheckpointError(f"{folder.name} is not a finished run.", hint=f"{command} resumes it.")
    return folder


def _reduced(cfg: DictConfig) -> bool:
    """Whether the rank is lowered in one of the phases."""
    regularizer = cfg.get("regularizer")
    return regularizer is not None and "decrease" in (regularizer.get("phase1"), regularizer.get("phase2"))


def _settings(cfg: DictConfig) -> dict[str, Any]:
    """Return the settings of a system by dotted key: all but seeds and what does not affect results."""
    plain = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(plain, dict)
    omitted = {"init_from", "logger"}
    leaves = _flat({key: value for key, value in without_volatile(plain).items() if key not in omitted})
    return {key: value for key, value in leaves.items() if key.split(".")[-1] != "seed"}


def _flat(node: Mapping[Any, Any], prefix: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for key, value in node.items():
        leaves |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return leaves


def systems(runs: Sequence[FigureRun], sentences: Sentences) -> list[System]:
    """Return rank and score of each system; its original is the first of its method without rank reduction.

    Args:
        runs: Finished runs.
        sentences: Sentences whose rank and score are read.

    Raises:
        CheckpointError: A run has no rank of these sentences.
    """
    originals = {run.method: run.system for run in reversed(runs) if not run.reduced}
    found = []
    for name in dict.fromkeys(run.system for run in runs):
        own = [run for run in runs if run.system == name]
        pairs = [_rank_and_score(run, sentences) for run in own]
        original = originals.get(own[0].method) if own[0].reduced else None
        found.append(
            System(name, own[0].reduced, [rank for rank, _ in pairs], [score for _, score in pairs], original)
        )
    return found


def _rank_and_score(run: FigureRun, sentences: Sentences) -> tuple[float, float]:
    metrics = run.folder.metrics()
    if sentences == "test":
        scores = metrics.scores
        if "rank" not in scores or "average" not in scores:
            raise CheckpointError(
                f"{run.folder.name} has no rank of the test sentences.",
                hint="train with evaluation.rank=true, or draw those of the rank monitor with --on dev.",
            )
        return scores["rank"], scores["average"]
    step = metrics.details.get("best_step")
    at = {row["step"]: row["rank/energy"] for row in run.folder.history() if "rank/energy" in row}
    if step not in at or metrics.dev is None:
        raise CheckpointError(
            f"{run.folder.name} has no rank of the dev sentences at the selected step ({step}).",
            hint="train with callbacks=rank_monitor, whose interval divides that of the dev evaluations.",
        )
    return at[step], metrics.score


def trace(run: FigureRun, columns: Mapping[str, str], hint: str = MONITORED) -> Trace:
    """Return columns of a run's history over the steps at which its rank was measured.

    Args:
        run: A run with a rank monitor.
        columns: Columns of the history, by name.
        hint: What to do if one of them is absent.

    Raises:
        CheckpointError: The history lacks a column.
    """
    rows = [row for row in run.folder.history() if "rank/energy" in row]
    absent = [column for column in columns.values() if not rows or any(column not in row for row in rows)]
    if absent:
        raise CheckpointError(f"the history of {run.folder.name} has no {absent[0]}.", hint=hint)
    values = {name: [row[column] for row in rows] for name, column in columns.items()}
    return Trace(
        run.system, f"seed {run.seed}", run.reduced, [row["step"] for row in rows], values, phases(run.folder)
    )


def phases(folder: RunFolder) -> Phases | None:
    """Return the phases of a run; None if it was trained without a rank monitor."""
    rows = [row for row in folder.history() if "rank/energy" in row and "rank/spearman" in row]
    if not rows:
        return None
    steps, ranks, scores = ([row[name] for row in rows] for name in ("step", "rank/energy", "rank/spearman"))
    return find_phases(steps, ranks, scores)


def probing_traces(folders: Sequence[RunFolder], trust: Trust = NOTHING) -> list[Trace]:
    """Return the probing scores of each run over its kept steps.

    Args:
        folders: Folders of evaluations with ``suite=probing``, each of one step of a run.
        trust: Classes and settings that the configurations of the runs may contain.

    Raises:
        CheckpointError: A folder is of something else, a step occurs twice, or the tasks differ.
    """
    scores: dict[str, dict[int, dict[str, float]]] = {}
    for folder in folders:
        metrics = folder.metrics()
        run, step = metrics.details.get("ckpt"), metrics.details.get("step")
        if metrics.details.get("suite") != "probing" or run is None or step is None:
            raise CheckpointError(
                f"{folder.name} is not an evaluation of a run's step on the probing tasks.",
                hint=f"{command_line('eval', 'ckpt=RUN', 'step=N', 'suite=probing')} makes one.",
            )
        own = {name: score for name, score in metrics.scores.items() if name != "average"}
        if step in scores.setdefault(run, {}):
            raise CheckpointError(f"{folder.name} is a second evaluation of step {step} of {run}.")
        scores[run][step] = own
    if len({tuple(sorted(row)) for steps in scores.values() for row in steps.values()}) != 1:
        raise CheckpointError("the evaluations are of different tasks.")
    named = name_runs([RunFolder(run) for run in scores], trust)
    return [
        _probed(one, dict(sorted(steps.items()))) for one, steps in zip(named, scores.values(), strict=True)
    ]


def _probed(run: FigureRun, steps: Mapping[int, Mapping[str, float]]) -> Trace:
    values = {task: [row[task] for row in steps.values()] for task in next(iter(steps.values()))}
    return Trace(run.system, f"seed {run.seed}", run.reduced, list(steps), values, phases(run.folder))

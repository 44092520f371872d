"""How far the run in a folder has got, and what may be started there."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from sts_lightning.errors import CheckpointError, ConfigError, FinishedRunError

log = logging.getLogger(__name__)

CONFIG = "config.yaml"
METRICS = "metrics.json"
STAGES = "stages.yaml"
"""The file of a folder of stages; it names them in order."""

LAST = Path("checkpoints") / "last.ckpt"

VOLATILE = ("hydra", "debug", "resume", "data_root")
"""Keys that do not change what a run is."""

ATTEMPT = ("history.csv", "checkpoints", "tensorboard")
"""What a run writes before its first checkpoint, and writes again when it starts from the beginning."""

State = Literal["new", "started", "cut", "finished"]


def state_of(folder: Path) -> State:
    """How far a run, an evaluation or a run of several stages has got.

    Args:
        folder: The run folder.

    Returns:
        ``finished``: it has its results. ``cut``: it has a checkpoint, or a finished stage, to resume from.
        ``started``: it has a configuration only. ``new``: none of these.

    Raises:
        CheckpointError: Its stages cannot be read.
    """
    if (folder / STAGES).is_file():
        states = [state_of(folder / name) for name in stage_names(folder)]
        if states and states[-1] == "finished":
            return "finished"
        return "cut" if {"cut", "finished"} & set(states) else "started"
    if (folder / METRICS).is_file():
        return "finished"
    if (folder / LAST).is_file():
        return "cut"
    return "started" if (folder / CONFIG).is_file() else "new"


def stage_names(folder: Path) -> list[str]:
    """The stages of a folder, in order.

    Raises:
        CheckpointError: They cannot be read.
    """
    return [str(name) for name in _read(folder / STAGES)]


def check_free(folder: Path) -> State:
    """Reject a folder whose run has a checkpoint or results, which a new run would overwrite.

    Args:
        folder: Where a run is to start.

    Returns:
        ``new`` or ``started``; for the second, `check_same` decides.

    Raises:
        FinishedRunError: It holds results.
        ConfigError: It holds a run that can be resumed.
    """
    state = state_of(folder)
    if state == "finished":
        raise FinishedRunError(
            f"{_name(folder)} holds a finished run already, which is not overwritten; choose another folder "
            "with hydra.run.dir=..."
        )
    if state == "cut":
        raise ConfigError(
            f"{_name(folder)} holds a run already, which is not overwritten; resume it with resume="
            f"{_name(folder)}, or choose another folder with hydra.run.dir=..."
        )
    return state


def check_resumable(folder: Path) -> State:
    """Reject a folder whose run has finished or never began.

    Args:
        folder: The run folder.

    Returns:
        ``cut``, or ``started`` for a run that starts again from the beginning.

    Raises:
        FinishedRunError: The run has finished.
        CheckpointError: There is no run.
    """
    state = state_of(folder)
    if state == "finished":
        stages = (folder / STAGES).is_file()
        results = folder / stage_names(folder)[-1] if stages else folder / METRICS
        raise FinishedRunError(f"{_name(folder)} has finished: its results are in {_name(results)}.")
    if state == "new":
        raise CheckpointError(f"{_name(folder)} is not a run folder: it has no {CONFIG}.")
    return state


def check_same(folder: Path, composed: DictConfig) -> None:
    """Reject a configuration other than the one of the run that was started in a folder.

    Where the data are and how errors are shown does not count.

    Args:
        folder: A run folder in the state ``started``.
        composed: The configuration that is to start there, or those of stages by name.

    Raises:
        ConfigError: They differ; the message names the keys.
    """
    stages = (folder / STAGES).is_file()
    path = folder / (STAGES if stages else CONFIG)
    read = OmegaConf.create(OmegaConf.to_yaml(composed, resolve=True))  # as it will be read again
    wanted: Any = OmegaConf.to_container(read)
    before, now = (_leaves(mapping, stages) for mapping in (_read(path), wanted))
    absent = object()
    keys = sorted(
        key for key in before.keys() | now.keys() if before.get(key, absent) != now.get(key, absent)
    )
    if keys:
        more = f" and {len(keys) - 5} more" if len(keys) > 5 else ""
        raise ConfigError(
            f"{_name(folder)} holds a run that was started with other values of {', '.join(keys[:5])}{more}; "
            f"start that one again with resume={_name(folder)}, or choose another folder with "
            "hydra.run.dir=..."
        )


def begin_again(folder: Path) -> None:
    """Remove what a run wrote before its first checkpoint, and say that it starts again.

    Args:
        folder: A run folder in the state ``started``, held by this process.
    """
    for name in ATTEMPT:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    log.info("%s has no checkpoint yet: starting it again from the beginning.", _name(folder))


def next_step(folder: Path, command: str) -> str:
    """What a user can do after a run was stopped, as the end of a sentence that says so.

    Args:
        folder: The run folder.
        command: The command that resumes it.
    """
    return {
        "new": " before anything was written. The same command starts it again.",
        "started": f" before the first checkpoint. Start it again with the same command, or: {command}",
        "cut": f". Resume with: {command}",
        "finished": f" when its results were written already: {_name(folder)}",
    }[state_of(folder)]


def _read(path: Path) -> Mapping[str, Any]:
    try:
        read: Any = OmegaConf.to_container(OmegaConf.load(path))
    except (YAMLError, OmegaConfBaseException, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    if not isinstance(read, dict):
        raise CheckpointError(f"{path} is not a configuration: it has no keys.")
    return read


def _leaves(mapping: Mapping[str, Any], stages: bool) -> dict[str, Any]:
    """The values that say what a run is, by dotted key, without the place of the data."""
    if stages:
        return {
            f"{name}.{key}": value
            for name, stage in mapping.items()
            for key, value in _leaves(stage, False).items()
        }
    root = mapping.get("data_root")
    return {
        key: value.removeprefix(root) if isinstance(root, str) and isinstance(value, str) else value
        for name, node in mapping.items()
        if name not in VOLATILE
        for key, value in _flat(str(name), node)
    }


def _flat(key: str, node: Any) -> list[tuple[str, Any]]:
    if isinstance(node, dict):
        return [leaf for name, child in node.items() for leaf in _flat(f"{key}.{name}", child)]
    return [(key, node)]


def _name(folder: Path) -> str:
    """The path as the user would type it."""
    return str(folder.relative_to(Path.cwd())) if folder.is_relative_to(Path.cwd()) else str(folder)

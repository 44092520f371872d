"""Checks of the progress of a run before something is started in its folder."""

from __future__ import annotations

import logging
import shlex
import shutil
from typing import Any

from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.check import path_override
from sts_lightning.config.identity import FREE, OF_TRAINING, file_digests, identity, select
from sts_lightning.config.schema import COMMAND
from sts_lightning.core.errors import ConfigError
from sts_lightning.runs.folder import RunFolder

log = logging.getLogger(__name__)


LENGTHS = ("trainer.max_epochs", "trainer.max_steps")
"""Limits of a run, which a longer one may replace."""


def check_same(folder: RunFolder, composed: DictConfig) -> None:
    """Reject a command that would go on in a folder with what another one has begun there; see `differing`.

    Args:
        folder: Run folder.
        composed: Configuration of the command.

    Raises:
        ConfigError: The folder has a run of other settings, or one that has finished with other data.
    """
    keys = [] if folder.state == "new" else differing(folder, composed)
    if keys:
        more = f" and {len(keys) - 5} more" if len(keys) > 5 else ""
        raise ConfigError(
            f"{folder.name} contains a run that was started with other values of "
            f"{', '.join(keys[:5])}{more}; "
            f"restart that run with resume={folder.name}, or choose another folder with "
            "hydra.run.dir=..."
        )


def report_finished(folder: RunFolder) -> float:
    """Say what a run, or an evaluation, that has finished has reached; return its score."""
    metrics = folder.metrics()
    scores = ", ".join(f"{name} {score:.2f}" for name, score in metrics.scores.items())
    log.info("%s has finished: %s; results in %s", folder.name, scores, RunFolder(folder.metrics_file).name)
    return metrics.score


BESIDE_RESUME = (
    *(
        key
        for key in select(dict.fromkeys([*OF_TRAINING, "data.num_workers"]), FREE)
        if key not in ("name", "papers", "logger", *COMMAND)
    ),
    *LENGTHS,
)
"""Settings that a command may have besides ``resume``: what leaves the result as it is, and another length.

Groups, such as loggers, are not among them, nor what names a run.
"""


def train_on(folder: RunFolder) -> str:
    """Return how to go on from a finished run that cannot be trained further itself."""
    start = shlex.quote(path_override("init_from", folder.name))
    return f"To train on from its weights, start a new run with its model and data, and {start}."


def differing(folder: RunFolder, composed: DictConfig) -> list[str]:
    """Return in what a configuration and the run in a folder differ, if they are not the same (`identity`).

    A file that is gone, or of which the run stored no digest, is not compared.

    Args:
        folder: Run folder.
        composed: Configuration of the new run.

    Returns:
        Keys, sorted; for a file that has changed "the content of" its setting.
    """
    read = OmegaConf.create(OmegaConf.to_yaml(composed, resolve=True))  # as it will be read from the file
    wanted: Any = OmegaConf.to_container(read)
    known, found = folder.digests(), file_digests(wanted)
    both = known.keys() & found.keys()
    before = identity(folder.settings(), {key: known[key] for key in both})
    now = identity(wanted, {key: found[key] for key in both})
    absent = object()
    return sorted(
        key for key in before.keys() | now.keys() if before.get(key, absent) != now.get(key, absent)
    )


def begin_again(folder: RunFolder) -> None:
    """Remove the files that a run wrote before its first checkpoint.

    Args:
        folder: Run folder in the state ``started``, locked by this process.
    """
    linked = folder.checkpoints.is_symlink() and folder.checkpoints.is_dir()  # they lie elsewhere
    checkpoints = folder.checkpoints.iterdir() if linked else [folder.checkpoints]
    for path in (folder.history_file, folder.dev_file, folder.path / "tensorboard", *checkpoints):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def next_step(folder: RunFolder, command: str) -> str:
    """Return the end of a message that a run was stopped, with what the user can do next.

    Args:
        folder: Run folder.
        command: Command that resumes the run.
    """
    return {
        "new": " before anything was written. The same command starts it again.",
        "started": f" before the first checkpoint. Start it again with the same command, or: {command}",
        "interrupted": f". Resume with: {command}",
        "finished": f" after its results had been written: {folder.name}",
    }[folder.state]

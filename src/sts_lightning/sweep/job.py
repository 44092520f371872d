"""A job of a sweep: its command, folder, state and result."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from omegaconf import DictConfig

from sts_lightning.config.compose import job_config
from sts_lightning.config.folders import user_folder
from sts_lightning.config.identity import configuration_hash
from sts_lightning.core.errors import counted
from sts_lightning.runs.folder import RunFolder

State = Literal[
    "queued", "running", "done", "was done", "runs elsewhere", "failed", "stopped", "timed out", "not run"
]

ENDED = tuple(state for state in get_args(State) if state not in ("queued", "running"))
"""States of a job that has nothing left to do."""

FAILED = tuple(state for state in ENDED if state not in ("done", "was done"))
"""States of a job without a result of this sweep."""


@dataclass(frozen=True)
class Demand:
    """GPUs requested by a job.

    Attributes:
        gpus: Number of GPUs; 0: none; -1: all of the machine.
        required: True if the job cannot run on the CPU.
    """

    gpus: int = 0
    required: bool = False

    def __str__(self) -> str:
        if not self.gpus:
            return "no GPU"
        text = "all GPUs" if self.gpus == -1 else counted(self.gpus, "GPU")
        return text if self.required else f"{text} if any"


@dataclass
class Job:
    """One job of a sweep.

    Attributes:
        number: Index in the sweep.
        overrides: Command-line overrides.
        folder: Path of the run folder.
        demand: Requested GPUs.
        script: Path of the script; by default that of the current process.
        conf: User's folder of the configuration; empty: none.
        needs: Folders of the runs that the job starts from, in order, each trained by a job of its own.
        first: Whether it is there for the jobs that need it alone: the user did not ask for it.
        state: Current state.
        score: Result; None until there is one.
        pairs: What the score is a score of, see `RunMetrics.scored_pairs`.
        seconds: Duration in seconds.
        problem: Why there is no result.
    """

    number: int
    overrides: tuple[str, ...]
    folder: Path
    demand: Demand = Demand()
    script: str = field(default_factory=lambda: sys.argv[0])
    conf: str = field(default_factory=lambda: str(user_folder() or ""))
    needs: tuple[Path, ...] = ()
    first: bool = False
    state: State = "queued"
    score: float | None = None
    pairs: str | None = None
    seconds: float = 0.0
    problem: str | None = None

    @property
    def run_folder(self) -> RunFolder:
        """Files of the run."""
        return RunFolder(self.folder)

    def title(self, without: Collection[str] = ()) -> str:
        """Return the overrides of the job in one line, those of `without` left out."""
        return " ".join(text for text in self.overrides if text not in without)

    def read_result(self) -> bool:
        """Store the score of the run if it has finished, and return whether it has.

        Raises:
            UserError: The result is broken.
        """
        if not self.run_folder.finished:
            return False
        metrics = self.run_folder.metrics()
        self.score, self.pairs = metrics.score, metrics.scored_pairs
        return True


def job_folder(composed: DictConfig) -> Path:
    """Return the folder of a run, named after a hash of its configuration, below the folder of the sweep."""
    with job_config(composed):
        return Path(composed.hydra.sweep.dir) / configuration_hash(composed)

"""A run folder: every file name, and how each file is read and written.

==========================  ===========================================================================
config.yaml                 the composed configuration, resolved
metrics.json                scores, data counts, seed, versions, time, memory; its presence means finished
history.csv                 one row for each logged step
predictions.npz             cosines and gold scores of the test pairs
checkpoints/best.ckpt       trained parameters at the best dev score
checkpoints/last.ckpt       everything that resuming needs
stages.yaml                 of a run of several stages: their configurations; each has a folder of its own
plots/*.png, train.log      for people
==========================  ===========================================================================
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.trust import NOTHING, Trust, read_config, read_stages, stage_names
from sts_lightning.errors import CheckpointError
from sts_lightning.files import write_atomic
from sts_lightning.runs.history import read_history
from sts_lightning.runs.metrics import RunMetrics, read_metrics, write_metrics

if TYPE_CHECKING:
    from collections.abc import Mapping

State = Literal["new", "started", "cut", "finished"]
"""How far a run has got.

``finished``: it has its results. ``cut``: it has a checkpoint, or a finished stage, to resume from.
``started``: it has a configuration only. ``new``: none of these.
"""


class RunFolder:
    """The folder of a run, an evaluation, or a run of several stages.

    Args:
        path: The folder; it need not exist.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config_file = self.path / "config.yaml"
        self.metrics_file = self.path / "metrics.json"
        self.history_file = self.path / "history.csv"
        self.predictions_file = self.path / "predictions.npz"
        self.stages_file = self.path / "stages.yaml"
        self.log_file = self.path / "train.log"
        self.output_file = self.path / "output.log"
        self.checkpoints = self.path / "checkpoints"
        self.plots = self.path / "plots"
        self.attempt = (self.history_file, self.checkpoints, self.path / "tensorboard")
        """What a run writes before its first checkpoint, and writes again when it starts anew."""

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunFolder) and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)

    @property
    def name(self) -> str:
        """The folder as the user would type it."""
        here = Path.cwd()
        return str(self.path.relative_to(here) if self.path.is_relative_to(here) else self.path)

    def checkpoint(self, which: Literal["best", "last"]) -> Path:
        """The file of the weights of the best dev score, or of the state to resume from."""
        return self.checkpoints / f"{which}.ckpt"

    @property
    def has_stages(self) -> bool:
        """Whether the folder holds several stages, each in a folder of its own."""
        return self.stages_file.is_file()

    @property
    def state(self) -> State:
        """How far the run has got.

        Raises:
            CheckpointError: Its stages cannot be read.
        """
        if self.has_stages:
            states = [stage.state for stage in self.stages()]
            if states and states[-1] == "finished":
                return "finished"
            return "cut" if {"cut", "finished"} & set(states) else "started"
        if self.metrics_file.is_file():
            return "finished"
        if self.checkpoint("last").is_file():
            return "cut"
        return "started" if self.config_file.is_file() else "new"

    @property
    def finished(self) -> bool:
        """Whether the run has its results."""
        return self.state == "finished"

    @property
    def resumable(self) -> bool:
        """Whether there is a checkpoint, or a finished stage, to resume from."""
        return self.state == "cut"

    def stages(self) -> list[RunFolder]:
        """The folders of the stages, in order; empty for a run of one stage.

        Raises:
            CheckpointError: Their file cannot be read.
        """
        if not self.has_stages:
            return []
        return [RunFolder(self.path / name) for name in stage_names(self.stages_file)]

    def last_stage(self) -> RunFolder:
        """The folder that holds the results: that of the last stage, or this one."""
        return self.stages()[-1] if self.has_stages else self

    def load_stages(self, trust: Trust = NOTHING) -> dict[str, DictConfig]:
        """Read the configuration of each stage; see `load_config`."""
        return read_stages(self.stages_file, trust)

    def save_stages(self, stages: Mapping[str, DictConfig]) -> None:
        """Write the configurations of stages, all interpolations resolved."""
        plain = {name: OmegaConf.to_container(stage, resolve=True) for name, stage in stages.items()}
        write_atomic(self.stages_file, OmegaConf.to_yaml(OmegaConf.create(plain)))

    def load_config(self, trust: Trust = NOTHING) -> DictConfig:
        """Read the configuration of the run.

        Args:
            trust: The user's word on what it may ask for.

        Raises:
            CheckpointError: The folder is not a run folder, or its configuration is broken.
            UntrustedError: It asks for more than the user allows.
        """
        if not self.config_file.is_file():
            raise CheckpointError(f"{self.path} is not a run folder: it has no {self.config_file.name}.")
        cfg = read_config(self.config_file, trust)
        absent = [
            key for key in ("model", "prompt", "evaluation") if not isinstance(cfg.get(key), DictConfig)
        ]
        if absent:
            raise CheckpointError(
                f"{self.config_file} is not the configuration of a run: it has no {', '.join(absent)}."
            )
        return cfg

    def save_config(self, cfg: DictConfig) -> None:
        """Write the configuration with all interpolations resolved."""
        write_atomic(self.config_file, OmegaConf.to_yaml(cfg, resolve=True))

    def metrics(self) -> RunMetrics:
        """Read the results.

        Raises:
            CheckpointError: There are none, or the file is broken.
        """
        return read_metrics(self.metrics_file)

    def save_metrics(self, metrics: RunMetrics) -> None:
        """Write the results, which marks the run as finished."""
        write_metrics(self.metrics_file, metrics)

    def history(self) -> list[dict[str, Any]]:
        """Read the rows of the history; empty where there is none."""
        return read_history(self.history_file)

    def read_checkpoint(self, which: Literal["best", "last"]) -> dict[str, Any]:
        """Read a checkpoint to the CPU.

        Raises:
            CheckpointError: It is missing or broken.
        """
        import torch  # not needed by a sweep, which starts processes of its own

        path = self.checkpoint(which)
        if not path.is_file():
            raise CheckpointError(f"{path} does not exist{self._why_missing()}.")
        try:
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises whatever its unpickler meets in a broken file
            raise CheckpointError(f"{path} is not a readable checkpoint ({type(error).__name__}).") from error
        if not isinstance(checkpoint, dict) or "state_dict" not in checkpoint:
            raise CheckpointError(f"{path} is not a checkpoint of a run: it has no state_dict.")
        return checkpoint

    def _why_missing(self) -> str:
        return {
            "new": "",
            "started": ": the run was stopped before its first checkpoint; start it again with resume="
            f"{self.name}",
            "cut": ": the run was stopped before its first dev evaluation, or the file was removed; "
            f"resume={self.name} resumes the run",
            "finished": ": the run has finished, and the file was removed since",
        }[self.state]

    def remove_if_empty(self) -> None:
        """Remove a folder in which nothing was written, and empty parents below the working directory."""
        here = Path.cwd()
        with contextlib.suppress(OSError):
            self.path.rmdir()
            for parent in self.path.resolve().parents:
                if parent == here or not parent.is_relative_to(here):
                    break
                parent.rmdir()

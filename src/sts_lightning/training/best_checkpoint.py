"""The weights of the best dev score, also of a run whose folder has moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor


class BestCheckpoint(ModelCheckpoint):
    """Keeps the checkpoint of the best score.

    Lightning's own callback forgets the best score if the folder was moved before the run is resumed, so that
    the next evaluation would replace the best weights by worse ones. It also never keeps weights before the
    first step.

    Args:
        *arguments: Arguments of `ModelCheckpoint`.
        untuned: Whether the weights before training are a candidate, by their score in the
            `Trainer.validate` before `Trainer.fit`.
        **settings: Further arguments of `ModelCheckpoint`.
    """

    def __init__(self, *arguments: Any, untuned: bool = False, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.untuned = untuned
        self._before: Tensor | None = None

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save if a score is the best so far, and note that before training."""
        if trainer.state.fn == TrainerFn.VALIDATING and trainer.global_step == 0:
            self._before = trainer.callback_metrics.get(str(self.monitor))
        super().on_validation_end(trainer, pl_module)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save the weights before training if they are a candidate."""
        super().on_train_start(trainer, pl_module)
        if self.untuned and self._before is not None and trainer.global_step == 0:
            metrics = self._monitor_candidates(trainer)
            self._save_monitor_checkpoint(trainer, {**metrics, str(self.monitor): self._before})

    @property
    def state_key(self) -> str:
        """Name of the state in checkpoints, that of Lightning's own callback."""
        return super().state_key.replace(type(self).__qualname__, ModelCheckpoint.__qualname__, 1)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the best score, with the files of that name in the present folder."""
        paths = ("best_model_path", "kth_best_model_path", "last_model_path")
        here: dict[str, Any] = {name: self._here(state_dict[name]) for name in paths}
        here["best_k_models"] = {
            self._here(path): score for path, score in state_dict["best_k_models"].items()
        }
        super().load_state_dict({**state_dict, **here, "dirpath": self.dirpath})

    def _here(self, path: str) -> str:
        return str(Path(str(self.dirpath)) / Path(path).name) if path else path

"""Checkpoints of a run: the best by dev score, those of given steps, and how each is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Checkpoint, ModelCheckpoint, WeightAveraging
from lightning.pytorch.plugins.io import TorchCheckpointIO
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor

from sts_lightning.core.files import replacing
from sts_lightning.models.loading.folder import write_model
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.predictions import save_dev


class BestCheckpoint(ModelCheckpoint):
    """Keeps the checkpoint of the best score.

    Lightning's own callback forgets the best score if the folder was moved before the run is resumed, so that
    the next evaluation would replace the best weights by worse ones. It also never keeps weights before the
    first step.

    Args:
        run: The run folder.
        *arguments: Arguments of `ModelCheckpoint`.
        untuned: Whether the weights before training are a candidate, by their score in the
            `Trainer.validate` before `Trainer.fit`.
        **settings: Further arguments of `ModelCheckpoint`.
    """

    def __init__(self, run: RunFolder, *arguments: Any, untuned: bool = False, **settings: Any) -> None:
        super().__init__(run.checkpoints, *arguments, **settings)
        self.run = run
        self.untuned = untuned
        self._before: Tensor | None = None

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save if a score is the best so far, and note that before training."""
        if trainer.state.fn == TrainerFn.VALIDATING and trainer.global_step == 0:
            self._before = trainer.callback_metrics.get(str(self.monitor))
            self._save_dev(trainer, selected=False)
        super().on_validation_end(trainer, pl_module)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save the weights before training if they are a candidate."""
        super().on_train_start(trainer, pl_module)
        if self.untuned and self._before is not None and trainer.global_step == 0:
            metrics = self._monitor_candidates(trainer)
            self._save_monitor_checkpoint(trainer, {**metrics, str(self.monitor): self._before})

    def _save_checkpoint(self, trainer: pl.Trainer, filepath: str) -> None:
        """Save the weights, and then what they give on the dev data, for the verdict of the run."""
        super()._save_checkpoint(trainer, filepath)
        self._save_dev(trainer, selected=True)

    def _save_dev(self, trainer: pl.Trainer, selected: bool) -> None:
        found = getattr(trainer.lightning_module, "dev_found", None)
        if found is not None and trainer.is_global_zero:
            save_dev(self.run, trainer.global_step, found, selected)

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


class KeptWeights(Checkpoint):
    """Writes a model folder before training and at regular intervals, and keeps all of them.

    Args:
        run: The run folder.
        every: Steps between the weights that are kept, at least 1.
    """

    def __init__(self, run: RunFolder, every: int) -> None:
        self.run = run
        self.every = every

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Keep the untrained weights."""
        if trainer.global_step == 0:
            self._keep(trainer, pl_module)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Keep the weights of a step that is due."""
        if trainer.global_step % self.every == 0:
            self._keep(trainer, pl_module)

    def _keep(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        averages = [each for each in trainer.callbacks if isinstance(each, WeightAveraging)]  # type: ignore[attr-defined]
        for average in averages:  # the dev scores are those of the averaged weights
            average._swap_models(pl_module)
        step = trainer.global_step
        module: Any = pl_module
        if trainer.is_global_zero:
            write_model(module.encoder, self.run.model(step), module.loss.state_dict(), step)
        for average in averages:
            average._swap_models(pl_module)


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes to a temporary file first, so that a full disk does not destroy the earlier checkpoint.

    Lightning's own writing goes by way of /tmp, which may be another file system.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write a checkpoint.

        Raises:
            OSError: It could not be written; the earlier file is unchanged.
        """
        target = Path(path)
        try:
            with replacing(target) as temporary:
                super().save_checkpoint(checkpoint, temporary, storage_options)
        except OSError as error:  # Lightning's error names the temporary file
            raise OSError(error.errno, error.strerror, str(target)) from error

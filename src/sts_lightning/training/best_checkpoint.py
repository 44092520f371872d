"""The weights of the best dev score, also of a run whose folder has moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import ModelCheckpoint


class BestCheckpoint(ModelCheckpoint):
    """Keeps the checkpoint of the best score.

    Lightning's own callback forgets the best score if the folder was moved before the run is resumed, so that
    the next evaluation would replace the best weights by worse ones.
    """

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

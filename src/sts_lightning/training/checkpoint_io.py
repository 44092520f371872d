"""Atomic writing of checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning.pytorch.plugins.io import TorchCheckpointIO

from sts_lightning.files import replacing


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes to a temporary file first, so that a full disk does not destroy the earlier checkpoint."""

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

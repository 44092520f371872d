"""Atomic writing of checkpoints."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lightning.pytorch.plugins.io import TorchCheckpointIO


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes to a temporary file first, so that a full disk does not destroy the earlier checkpoint."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write a checkpoint.

        Raises:
            OSError: It could not be written; the earlier file is unchanged.
        """
        target = Path(path)
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            super().save_checkpoint(checkpoint, temporary, storage_options)
            temporary.replace(target)
        except OSError as error:  # Lightning's error names the temporary file
            raise OSError(error.errno, error.strerror, str(target)) from error
        finally:
            temporary.unlink(missing_ok=True)

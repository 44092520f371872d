"""Reading and writing of one checkpoint."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sts_lightning.errors import CheckpointError
from sts_lightning.files import replacing


def read_checkpoint(path: Path, mmap: bool = False, whole: bool = True) -> dict[str, Any]:
    """Read a checkpoint to the CPU, without executing anything in it.

    Args:
        path: An existing file.
        mmap: Whether tensors stay in the file until their values are read.
        whole: Whether all of the file is read, to compare its check sums.

    Raises:
        CheckpointError: The file is broken, or not that of a run.
    """
    import torch  # not needed by a sweep, which starts other processes

    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
        damaged = zipfile.ZipFile(path).testzip() if whole else None  # torch checks no sums
    except Exception as error:  # the unpickler of torch raises various errors
        raise CheckpointError(f"{path} is not a readable checkpoint ({type(error).__name__}).") from error
    if damaged is not None:
        raise CheckpointError(f"{path} is broken: the check sum of its part {damaged} is wrong.")
    if not isinstance(checkpoint, dict) or "state_dict" not in checkpoint:
        raise CheckpointError(f"{path} is not a checkpoint of a run: it has no state_dict.")
    weights, step = checkpoint["state_dict"], checkpoint.get("global_step")
    if not isinstance(weights, dict) or not all(
        isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in weights.items()
    ):
        raise CheckpointError(f"{path} is broken: state_dict does not hold tensors by name.")
    if type(step) is not int or step < 0:
        raise CheckpointError(f"{path} is broken: global_step is {step!r}.")
    return checkpoint


def write_checkpoint(path: Path, content: Mapping[str, Any]) -> None:
    """Write a checkpoint under a temporary name and rename it.

    Raises:
        OSError: It could not be written; an earlier file is unchanged.
    """
    import torch

    with replacing(path) as temporary, temporary.open("wb") as file:
        try:
            torch.save(dict(content), file)
        except RuntimeError as error:  # torch's error hides that of the system, such as a full disk
            if isinstance(error.__context__, OSError):
                raise error.__context__ from error
            raise

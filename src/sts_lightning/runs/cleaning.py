"""Removal of what finished runs no longer need: the state of the optimiser in their last checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils._pytree import tree_leaves

from sts_lightning.errors import CheckpointError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.listing import find_runs
from sts_lightning.runs.lock import locked

NEEDED = ("state_dict", "global_step", "epoch", "loops", "pytorch-lightning_version")
"""Parts of a checkpoint that other runs and `verify` read; the rest is for resuming."""


@dataclass(frozen=True)
class Leftover:
    """A finished run whose last checkpoint could still be resumed from.

    Attributes:
        run: Its folder.
        size: Bytes of the checkpoint.
        unneeded: Bytes of tensors in it that nothing reads any more.
    """

    run: RunFolder
    size: int
    unneeded: int


def find_leftovers(root: Path) -> Iterator[Leftover | CheckpointError]:
    """Yield the finished runs in a folder that have a leftover, each stage of its own, by path.

    A run that has not finished is not among them. In place of a run whose checkpoint cannot be read, the
    reason is yielded.
    """
    seen = set()  # stages that runs share are listed by themselves as well
    for listed in find_runs(root):
        try:
            for run in listed.folder.stages() or [listed.folder]:
                path = run.path.resolve()
                found = None if path in seen else _leftover(run)
                seen.add(path)
                if found is not None:
                    yield found
        except CheckpointError as error:
            yield error


def drop(leftover: Leftover) -> int:
    """Remove from the last checkpoint everything but the weights, which ``init=final`` starts from.

    Args:
        leftover: What `find_leftovers` has found.

    Returns:
        Number of bytes by which the file has become smaller.

    Raises:
        RunningElsewhereError: A process is running in the folder.
        OSError: The file cannot be written; it is unchanged.
    """
    path = leftover.run.checkpoint("last")
    with locked(leftover.run.path):
        checkpoint = leftover.run.read_checkpoint("last")
        leftover.run.write_checkpoint(
            "last", {key: value for key, value in checkpoint.items() if key in NEEDED}
        )
    return leftover.size - path.stat().st_size


def _leftover(run: RunFolder) -> Leftover | None:
    path = run.checkpoint("last")
    if not run.finished or not path.is_file():
        return None
    if Path(os.path.realpath(path)) != Path(os.path.realpath(run.path)) / path.relative_to(run.path):
        return None  # a link: the file is another run's
    checkpoint = run.read_checkpoint("last", mmap=True, whole=False)
    unneeded = tree_leaves([value for key, value in checkpoint.items() if key not in NEEDED])
    storages = [tensor.untyped_storage() for tensor in unneeded if isinstance(tensor, torch.Tensor)]
    sizes = {storage.data_ptr(): storage.nbytes() for storage in storages}
    return Leftover(run, path.stat().st_size, sum(sizes.values())) if sizes else None

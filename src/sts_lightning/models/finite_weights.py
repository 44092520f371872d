"""Weights that are NaN or infinite: of a damaged file, or of a training that diverged."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from sts_lightning.errors import CheckpointError

CHECKED = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def check_finite(tensors: Iterable[tuple[str, Tensor]], source: str, key: str | None = None) -> None:
    """Reject a weight that is NaN or infinite; quantised ones, and those without values, are not checked.

    Args:
        tensors: Names and values.
        source: File or model that they come from, for the message.
        key: Dotted key of the setting that names it.

    Raises:
        CheckpointError: A value is not finite; the message names the first such tensor.
    """
    for name, tensor in tensors:
        if tensor.dtype in CHECKED and not tensor.is_meta and not torch.isfinite(tensor).all():
            wrong = int((~torch.isfinite(tensor)).sum())
            raise CheckpointError(
                f"{source}: {name} has {wrong:,} of {tensor.numel():,} values that are NaN or infinite.", key
            )

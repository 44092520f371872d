"""Checks of weights that have been read: names, shapes and finite values."""

from __future__ import annotations

from collections.abc import Iterable, Set

import torch
from torch import Tensor

from sts_lightning.core.errors import CheckpointError


def check_weights(
    expected: dict[str, Tensor], loaded: dict[str, Tensor], source: str, required: Set[str] | None = None
) -> None:
    """Check that ``loaded`` has the names and shapes of ``expected``.

    Args:
        expected: Weights of the model.
        loaded: Weights of a checkpoint.
        source: Origin of the loaded weights, for the message.
        required: Names that must be present; by default all of ``expected``.

    Raises:
        CheckpointError: A name is absent or unknown, or a shape differs.
    """
    required = expected.keys() if required is None else required
    wrong = sorted((required - loaded.keys()) | (loaded.keys() - expected.keys()))
    wrong += [name for name in expected.keys() & loaded.keys() if expected[name].shape != loaded[name].shape]
    if wrong:
        raise CheckpointError(
            f"{source} does not belong to this model: {len(wrong)} of {len(expected)} weights differ in name "
            f"or shape (for example {wrong[0]})."
        )


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

"""Weights: read from a file, and checked for names, shapes and finite values."""

from __future__ import annotations

from collections.abc import Iterable, Set
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from sts_lightning.core.errors import CheckpointError


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read finite tensors: from safetensors, or a pickle of which no code is run.

    Raises:
        CheckpointError: The file is missing or broken, holds more than tensors, or a value is not finite.
    """
    try:
        if path.suffix == ".safetensors":
            weights = load_file(path)
        else:
            weights = dict(torch.load(path, map_location="cpu", weights_only=True))
    except Exception as error:  # safetensors has another error class in each version
        reason = str(error).partition("\n")[0]
        raise CheckpointError(f"{path} cannot be read: {reason}", key="model.name") from error
    check_finite(weights.items(), str(path), "model.name")
    return weights


def check_weights(
    expected: dict[str, Tensor],
    loaded: dict[str, Tensor],
    source: str,
    required: Set[str] | None = None,
    key: str | None = None,
) -> None:
    """Check that ``loaded`` has the names and shapes of ``expected``.

    Args:
        expected: Weights of the model.
        loaded: Weights of a checkpoint.
        source: Origin of the loaded weights, for the message.
        required: Names that must be present; by default all of ``expected``.
        key: Dotted key of the setting that names it.

    Raises:
        CheckpointError: A name is absent or unknown, or a shape differs.
    """
    required = expected.keys() if required is None else required
    wrong = sorted((required - loaded.keys()) | (loaded.keys() - expected.keys()))
    wrong += [name for name in expected.keys() & loaded.keys() if expected[name].shape != loaded[name].shape]
    if wrong:
        raise CheckpointError(
            f"{source} does not belong to this model: {len(wrong)} of {len(expected)} weights differ in name "
            f"or shape (for example {wrong[0]}).",
            key,
        )


def copy_weights(weights: dict[str, Tensor], module: nn.Module, source: str) -> None:
    """Load weights into a module; each name and shape has to be there (see `check_weights`)."""
    check_weights(module.state_dict(), weights, source)
    module.load_state_dict(weights)


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

"""Checks of the weights in a checkpoint: finite, and those of the run's model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from torch import Tensor

from sts_lightning.errors import ConfigError, DataError
from sts_lightning.models.finite_weights import check_finite
from sts_lightning.models.freezing import freeze
from sts_lightning.models.loading import part_of
from sts_lightning.planning.skeleton import build_skeleton
from sts_lightning.runs.folder import RunFolder


class NotCheckedError(Exception):
    """Check that cannot be made, and why."""


def check_tensors(checkpoint: Mapping[str, Any], path: Path) -> str:
    """Reject a checkpoint with a weight, or a state of the optimiser, that is NaN or infinite.

    Args:
        checkpoint: Contents of the checkpoint.
        path: Its file, for the message.

    Returns:
        What it holds.

    Raises:
        CheckpointError: A value is not finite; the message names the first such tensor.
    """
    for part in ("state_dict", "optimizer_states"):
        check_finite(_tensors(checkpoint.get(part), part), str(path))
    weights = list(_tensors(checkpoint["state_dict"], ""))
    count = sum(tensor.numel() for _, tensor in weights)
    step = checkpoint.get("global_step")
    return f"step {step}, {len(weights)} tensors, {count:,} values, all finite"


@contextmanager
def not_here() -> Iterator[None]:
    """Raise `NotCheckedError` where data or model are not on this machine."""
    try:
        yield
    except DataError as error:
        raise NotCheckedError(str(error)) from error
    except ConfigError as error:
        if error.key != "model.name":
            raise
        raise NotCheckedError(str(error)) from error


def check_fit(run: RunFolder, cfg: DictConfig, checkpoint: dict[str, Any]) -> str:
    """Check names and shapes of a checkpoint against the run's model, whose weights are not loaded.

    Args:
        run: The run folder.
        cfg: Its configuration.
        checkpoint: Its weights of the best dev score.

    Returns:
        What fits.

    Raises:
        CheckpointError: Weights are absent, unknown or of another shape.
        NotCheckedError: The shape of the model is not known on this machine.
    """
    with not_here():
        encoder = build_skeleton(cfg.model, cfg.prompt).encoder
    freeze(encoder, cfg.get("freeze", "none"))
    found = part_of(encoder, "encoder.", checkpoint, run.checkpoint("best"))
    whole = sum(1 for _ in encoder.named_parameters())
    return f"{len(found)} weights of the encoder fit the model, which has {whole}"


def _tensors(node: Any, path: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(node, Tensor):
        yield path, node
    elif isinstance(node, Mapping):
        for key, value in node.items():
            yield from _tensors(value, f"{path}.{key}")
    elif isinstance(node, list | tuple):
        for index, value in enumerate(node):
            yield from _tensors(value, f"{path}.{index}")

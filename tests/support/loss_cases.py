"""An instance of every loss, and a batch for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sts_lightning.losses import all_losses
from sts_lightning.losses.base import TOP_SCORE, Loss
from sts_lightning.losses.cosine_mse import CosineMSELoss
from sts_lightning.losses.divided import DividedLoss
from sts_lightning.losses.joint import JointLoss
from sts_lightning.losses.matryoshka import MatryoshkaLoss
from sts_lightning.losses.mix import MixLoss
from sts_lightning.losses.pearson import PearsonLoss

DIMENSION = 6


def make(stem: str, dimension: int = DIMENSION, **settings: Any) -> Loss:
    """Make the loss with its defaults but for the given settings, in float64."""
    kind: Callable[..., Loss] = all_losses()[stem]
    torch.manual_seed(0)
    if kind is MixLoss:
        return MixLoss({"r": PearsonLoss(), "mse": CosineMSELoss()}, {"r": 1.0, "mse": 0.5}).double()
    if kind is MatryoshkaLoss:
        return MatryoshkaLoss(CosineMSELoss(), [dimension, dimension // 2]).double()
    if kind is DividedLoss:
        return DividedLoss(PearsonLoss(), shards=2).double()
    if kind is JointLoss:
        return JointLoss({"r": PearsonLoss(), "mse": CosineMSELoss()}).double()
    facts = {"dimension": dimension, "top_label": 2 if stem == "cross_entropy" else TOP_SCORE}
    taken = inspect.signature(kind).parameters
    return kind(**{name: value for name, value in facts.items() if name in taken}, **settings).double()


def further(loss: Loss, size: int = 7, seed: int = 0, dimension: int = DIMENSION) -> dict[str, Any]:
    """Draw the arguments that the loss cannot do without, in float64."""
    if isinstance(loss, JointLoss):
        return {"part": "mse"}
    generator = torch.Generator().manual_seed(100 + seed)
    shapes = {"teacher": (size, size), "second": (size, dimension), "masked_lm": ()}
    shapes |= {"teacher_vectors": (max(loss.needs.views), size, dimension)}
    return {
        name: torch.rand(shapes[name], generator=generator, dtype=torch.float64)
        for name in loss.needs.required_inputs
        if name in shapes  # the numbers of sentences come with the batch
    }


def batch(loss: Loss, size: int = 7, seed: int = 0) -> tuple[Tensor, Tensor | None]:
    """Draw views in float64, as many as the loss accepts, and labels of its first kind."""
    generator = torch.Generator().manual_seed(seed)
    views = torch.randn(max(loss.needs.views), size, DIMENSION, generator=generator, dtype=torch.float64)
    if loss.needs.labels[0] == "none":
        return views, None
    if loss.needs.labels[0] == "class":
        return views, torch.arange(size) % 3
    return views, TOP_SCORE * torch.rand(size, generator=generator, dtype=torch.float64)

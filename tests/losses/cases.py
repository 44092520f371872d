"""An instance of every loss, and a batch for it."""

from __future__ import annotations

import torch
from torch import Tensor

from sts_lightning.losses import all_losses
from sts_lightning.losses.base import TOP_SCORE, Loss
from sts_lightning.losses.cosine_mse import CosineMSELoss
from sts_lightning.losses.mix import MixLoss
from sts_lightning.losses.pearson import PearsonLoss

DIMENSION = 6


def make(stem: str) -> Loss:
    """Make the loss with its defaults, in float64."""
    kind = all_losses()[stem]
    torch.manual_seed(0)
    if kind is MixLoss:
        loss: Loss = MixLoss({"r": PearsonLoss(), "mse": CosineMSELoss()}, {"r": 1.0, "mse": 0.5})
    else:
        loss = kind()
    loss.make_head(DIMENSION, 2 if loss.labels == ("class",) else TOP_SCORE)
    return loss.double()


def further(loss: Loss, size: int = 7, seed: int = 0, dimension: int = DIMENSION) -> dict[str, Tensor]:
    """Draw the arguments that the loss cannot do without, in float64."""
    generator = torch.Generator().manual_seed(100 + seed)
    shapes = {"teacher": (size, size), "twin": (size, dimension), "auxiliary": ()}
    return {
        name: torch.rand(shapes[name], generator=generator, dtype=torch.float64) for name in loss.requires
    }


def batch(loss: Loss, size: int = 7, seed: int = 0) -> tuple[Tensor, Tensor | None]:
    """Draw views in float64, as many as the loss accepts, and labels of its first kind."""
    generator = torch.Generator().manual_seed(seed)
    views = torch.randn(max(loss.views), size, DIMENSION, generator=generator, dtype=torch.float64)
    if loss.labels[0] == "none":
        return views, None
    if loss.labels[0] == "class":
        return views, torch.arange(size) % 3
    return views, TOP_SCORE * torch.rand(size, generator=generator, dtype=torch.float64)

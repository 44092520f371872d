"""Curves of the losses, computed by their own code and drawn as SVG."""

from __future__ import annotations

import math
from dataclasses import dataclass
from xml.sax.saxutils import escape

import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor, nn

from sts_lightning.config.build import build
from sts_lightning.config.folders import files_of
from sts_lightning.losses.base import TOP_SCORE, Loss
from sts_lightning.losses.regression import SiameseRegressionLoss

BATCH = 32
"""Examples in a batch."""

GOLD = (0.0, 2.5, 5.0)
NEGATIVES = (0.0, 0.2, 0.4)
"""Cosines of sentences of different examples."""

HARD_NEGATIVE = 0.3
BY_COORDINATES = ("angle",)
"""Losses that depend on more than cosines: on angles in the complex plane."""

OF_OTHERS = ("divided", "joint", "matryoshka", "mix")
"""Losses that are made of others, which have to be named."""

POINTS = 81
COLOURS = ("#4c78d8", "#d9702b", "#2f9e6b")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 460, 230, 52, 120, 10, 36


@dataclass(frozen=True)
class Curves:
    """Values of a loss.

    Attributes:
        x: Positions, (N,).
        axis: What they are.
        values: Values of the loss at these, (N,), by the name of the curve.
        caption: What is drawn.
    """

    x: np.ndarray
    axis: str
    values: dict[str, np.ndarray]
    caption: str


def curves(name: str) -> Curves | None:
    """Return the curves of a loss with its default settings; None if it depends on more than cosines.

    Args:
        name: Choice of the group loss.
    """
    if name in (*BY_COORDINATES, *OF_OTHERS):
        return None
    node = OmegaConf.load(files_of("loss")[name])
    assert isinstance(node, DictConfig)
    loss: Loss = build("loss", node, Loss, {"dimension": 3 * BATCH + 1, "top_label": TOP_SCORE}).double()
    if isinstance(loss, SiameseRegressionLoss):
        return _of_predictions(loss)
    if loss.needs.required_inputs or any(True for _ in loss.parameters()):
        return None
    return _of_scores(loss) if "score" in loss.needs.labels else _of_positives(loss)


def _of_predictions(loss: SiameseRegressionLoss) -> Curves:
    top = loss.spacing * loss.top_label
    x = np.linspace(-0.2 * top, 1.2 * top, POINTS)
    views = torch.zeros(2, 1, 3 * BATCH + 1, dtype=torch.float64)
    nn.init.zeros_(loss.head.weight)  # the bias is the prediction then
    values = {}
    for gold in GOLD:
        rows = []
        for own in x:
            nn.init.constant_(loss.head.bias, own)
            rows.append(loss(views, torch.tensor([gold])))
        values[f"gold {gold:g}"] = torch.stack(rows).detach().numpy()
    return Curves(x, "prediction of the head", values, "Loss of one pair by the prediction of its head.")


def _of_scores(loss: Loss) -> Curves:
    x = np.linspace(-0.5, 1, POINTS)
    others = torch.linspace(0, TOP_SCORE, BATCH - 1, dtype=torch.float64)
    values = {}
    for gold in GOLD:
        labels = torch.cat([torch.tensor([gold], dtype=torch.float64), others])
        cosines = 0.1 + 0.8 * others / TOP_SCORE
        rows = [loss(_views(torch.cat([cosines.new_tensor([own]), cosines])), labels) for own in x]
        values[f"gold {gold:g}"] = torch.stack(rows).detach().numpy()
    caption = (
        f"Loss of a batch of {BATCH} pairs by the cosine of one of them. The cosines of the others rise with "
        "their gold scores, from 0.1 to 0.9; sentences of different pairs are orthogonal."
    )
    return Curves(x, "cosine of the pair", values, caption)


def _of_positives(loss: Loss) -> Curves:
    x = np.linspace(0, 1, POINTS)
    values = {}
    for negative in NEGATIVES:
        cosines = torch.full((BATCH,), 0.7, dtype=torch.float64)
        rows = []
        for own in x:
            cosines[0] = own
            rows.append(loss(_views(cosines, negative, max(loss.needs.views)), None))
        values[f"negatives {negative:g}"] = torch.stack(rows).detach().numpy()
    caption = (
        f"Loss of a batch of {BATCH} examples by the cosine of one anchor and its positive, for three "
        "cosines of sentences of different examples. The other positives have 0.7."
    )
    if max(loss.needs.views) > 2:
        caption += f" Hard negatives have {HARD_NEGATIVE:g}, or that cosine if it is higher."
    return Curves(x, "cosine of anchor and positive", values, caption)


def _views(cosines: Tensor, negative: float = 0.0, views: int = 2) -> Tensor:
    """Return unit vectors (V, B, 3 B + 1) with given cosines.

    Args:
        cosines: Cosine of the first two sentences of each example, (B,), at least 2 ``negative`` - 1.
        negative: Cosine of sentences of different examples.
        views: V; the third sentence has `HARD_NEGATIVE` or ``negative`` with the first.
    """
    axes = torch.eye(3 * len(cosines) + 1, dtype=cosines.dtype)
    own, common = axes[1:].unflatten(0, (3, -1)), axes[0]
    third = torch.full_like(cosines, max(negative, HARD_NEGATIVE))
    made = [own[0]]
    for other, wanted in ((1, cosines), (2, third)):
        within = ((wanted - negative) / (1 - negative)).unsqueeze(1)
        made.append(within * own[0] + (1 - within**2).clamp(min=0).sqrt() * own[other])
    return torch.stack([negative**0.5 * common + (1 - negative) ** 0.5 * view for view in made[:views]])


def draw(found: Curves) -> str:
    """Return an SVG that is readable on light and dark pages."""
    everything = np.concatenate(list(found.values.values()))
    low, high = float(everything.min()), float(everything.max())
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def across(value: float) -> float:
        return LEFT + width * (value - found.x[0]) / (found.x[-1] - found.x[0])

    def down(value: float) -> float:
        return TOP + height * (high - value) / (high - low)

    parts = [
        f'<svg class="loss-curves" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" fill="none" '
        f'xmlns="http://www.w3.org/2000/svg" font-size="12"><title>{escape(found.caption)}</title>',
        f'<path d="M{LEFT} {TOP}v{height}h{width}" stroke="currentColor" opacity="0.5"/>',
    ]
    step = 0.5 if found.x[-1] - found.x[0] < 2 else 1.0
    digits = max(0, 2 - math.floor(math.log10(high - low)))
    ticks = np.arange(math.ceil(found.x[0] / step) * step, found.x[-1] + 1e-9, step)
    levels = (low, (low + high) / 2, high)
    parts += [_text(across(value), HEIGHT - BOTTOM + 15, f"{value:g}", "middle") for value in ticks]
    parts += [_text(LEFT - 5, down(value) + 4, f"{round(value, digits) + 0:g}", "end") for value in levels]
    parts.append(_text(LEFT + width / 2, HEIGHT - 4, found.axis, "middle"))
    for row, (name, values) in enumerate(found.values.items()):
        points = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in zip(found.x, values, strict=True))
        parts.append(f'<polyline points="{points}" stroke="{COLOURS[row]}" stroke-width="2"/>')
        at = TOP + 16 * (row + 1)
        parts.append(f'<path d="M{WIDTH - RIGHT + 8} {at - 4}h14" stroke="{COLOURS[row]}" stroke-width="2"/>')
        parts.append(_text(WIDTH - RIGHT + 26, at, name, "start"))
    return "".join([*parts, "</svg>"])


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor">{escape(text)}</text>'

"""Siamese heads on two sentence vectors: features, the regression framework."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sts_lightning.losses.base import Loss, require_labels, upcast

Features = Literal["u_v", "diff", "u_v_diff"]
"""What a head reads: [u; v], |u - v|, or [u; v; |u - v|] (STS-Regression, Table 6)."""

Clamp = Literal["none", "left", "both"]
"""Which end of the label range bounds a prediction."""


def pair_features(first: Tensor, second: Tensor, features: Features) -> Tensor:
    """(B, D), (B, D) -> (B, M D), at least in float32, with M = 2, 1 or 3."""
    u, v = upcast(first), upcast(second)
    parts = {"u_v": (u, v), "diff": ((u - v).abs(),), "u_v_diff": (u, v, (u - v).abs())}
    return torch.cat(parts[features], dim=-1)


def features_size(features: Features, dimension: int) -> int:
    """M D of `pair_features`.

    Raises:
        ValueError: Unknown features.
    """
    if features not in get_args(Features):
        raise ValueError(f"features must be one of {', '.join(get_args(Features))}, got {features!r}.")
    return {"u_v": 2, "diff": 1, "u_v_diff": 3}[features] * dimension


def linear(head: nn.Linear, features: Tensor) -> Tensor:
    """The head in the precision of the features."""
    return F.linear(features, head.weight.to(features.dtype), head.bias.to(features.dtype))


class SiameseRegressionLoss(Loss):
    r"""A linear head predicts the label as a number; a penalty measures the error (STS-Regression, Sec. 4).

    .. math:: p = w \cdot [u; v; |u - v|] + b, \quad
        L = \frac1B \sum_i \mathrm{penalty}(|p_i - d\,y_i|)

    Labels are mapped to evenly spaced nodes: label y stands at d y, whether y is a class 0, 1, ..., K-1 or
    a score in [0, 5]. A prediction beyond the end nodes is read as the end node. Subclasses define the
    penalty; ``observed`` has the accuracy of the prediction rounded to the next node.

    Deviations from the papers' code, which ``official`` switches on: it floors fractional scores (4.8
    becomes 4), and a clamped prediction has no gradient at all there, even if its label is not that end.

    Args:
        features: What the head reads.
        spacing: d, the distance of neighbouring nodes, positive.
        clamp: ``both`` as the paper advises, ``left`` as its code does, or ``none``.
        official: Floor the labels, and cut the gradient of clamped predictions.
    """

    views = (2,)
    labels = ("score", "class")

    def __init__(
        self,
        features: Features = "u_v_diff",
        spacing: float = 1.0,
        clamp: Clamp = "both",
        official: bool = False,
    ) -> None:
        super().__init__()
        if not 0 < spacing < math.inf:
            raise ValueError(f"spacing must be positive and finite, got {spacing}.")
        if clamp not in get_args(Clamp):
            raise ValueError(f"clamp must be one of {', '.join(get_args(Clamp))}, got {clamp!r}.")
        features_size(features, 1)
        self.features: Features = features
        self.spacing = spacing
        self.clamp: Clamp = clamp
        self.official = official

    def make_head(self, dimension: int, top_label: float) -> None:
        """The linear map from M D features to one number."""
        self.top_label = top_label
        self.head = nn.Linear(features_size(self.features, dimension), 1)

    @abstractmethod
    def penalty(self, error: Tensor) -> Tensor:
        """What an absolute error costs: (B,) -> (B,)."""

    def predict(self, first: Tensor, second: Tensor) -> Tensor:
        """Predicted labels, not clamped: (B, D), (B, D) -> (B,), on the scale of the nodes."""
        features = pair_features(first, second, self.features)
        return linear(self.head, features).squeeze(-1)

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Views (2, B, D) and scores or classes (B,) to a scalar; see `Loss.forward`."""
        labels = require_labels(self, labels)
        prediction = self.predict(views[0], views[1])
        with torch.no_grad():
            rounded = (prediction / self.spacing).round().clamp(0, self.top_label)
            self.observed = {"accuracy": (rounded == labels.round()).float().mean()}
        target = (labels.floor() if self.official else labels).to(prediction.dtype) * self.spacing
        return self.penalty((self._clamped(prediction) - target).abs()).mean()

    def _clamped(self, prediction: Tensor) -> Tensor:
        if self.clamp == "none":
            return prediction
        top = self.spacing * self.top_label if self.clamp == "both" else None
        clamped = prediction.clamp(0, top)
        if self.official:
            return clamped
        # The value of the end, the gradient of the line: a label elsewhere pulls the prediction back, and
        # a label at this end has no error and with it no gradient.
        return prediction + (clamped - prediction).detach()


class ZeroZoneLoss(SiameseRegressionLoss):
    """A regression whose penalty is zero near the label and grows beyond.

    Args:
        k: How fast it grows, positive.
        x0: Error that costs nothing, at most half of ``spacing``, where the zones of neighbouring labels
            would begin to overlap.
        features: See `SiameseRegressionLoss`, as for the following.
        spacing: Distance of neighbouring labels' nodes.
        clamp: Ends that bound a prediction.
        official: Behave as the papers' code.

    Raises:
        ValueError: k or x0 is out of range.
    """

    def __init__(
        self,
        k: float,
        x0: float,
        features: Features = "u_v_diff",
        spacing: float = 1.0,
        clamp: Clamp = "both",
        official: bool = False,
    ) -> None:
        super().__init__(features, spacing, clamp, official)
        if not 0 < k < math.inf:
            raise ValueError(f"k must be positive and finite, got {k}.")
        if not 0 <= x0 <= spacing / 2:
            raise ValueError(
                f"x0 must lie between 0 and half of spacing ({spacing / 2:g}), got {x0}: "
                "a prediction would count as right for two labels."
            )
        self.k, self.x0 = k, x0

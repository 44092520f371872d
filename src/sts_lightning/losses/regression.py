"""Regression of a label from two sentence vectors: a head, and losses that differ by their penalty."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sts_lightning.losses.base import Loss, Needs, check_positive, one_of, require, upcast

Features = Literal["u_v", "diff", "u_v_diff", "cosine"]
"""Input of a head: [u; v], |u - v|, or [u; v; |u - v|] (STS-Regression, Table 6), or cos(u, v).

The paper does not have the cosine, with which training optimises the number that is evaluated.
"""

Clamp = Literal["none", "left", "both"]
"""Ends of the label range at which a prediction is clamped."""


def pair_features(first: Tensor, second: Tensor, features: Features) -> Tensor:
    """Concatenate the features of pairs, at least in float32: (B, D), (B, D) -> (B, `features_size`)."""
    u, v = upcast(first), upcast(second)
    if features == "cosine":
        return F.cosine_similarity(u, v)[:, None]
    parts = {"u_v": (u, v), "diff": ((u - v).abs(),), "u_v_diff": (u, v, (u - v).abs())}
    return torch.cat(parts[features], dim=-1)


def features_size(features: Features, dimension: int) -> int:
    """Return M, the size of `pair_features`: 2 D, D or 3 D, and 1 for the cosine."""
    one_of(Features, features=features)
    return 1 if features == "cosine" else {"u_v": 2, "diff": 1, "u_v_diff": 3}[features] * dimension


def linear(head: nn.Linear, features: Tensor) -> Tensor:
    """Apply the head in the precision of the features."""
    return F.linear(features, head.weight.to(features.dtype), head.bias.to(features.dtype))


class SiameseRegressionLoss(Loss):
    r"""Regression of the label with a linear head on both vectors (STS-Regression, Sec. 3.1).

    .. math:: p = w \cdot [u; v; |u - v|] + b, \quad
        L = \frac1B \sum_i \mathrm{penalty}(|p_i - d\,y_i|)

    Labels are mapped to evenly spaced nodes: label y is mapped to d y, whether y is a class 0, 1, ..., K-1
    or a score in [0, 5]. ``clamp`` reads a prediction beyond an end node as the end node. Subclasses define
    the penalty; ``observed`` has the accuracy of the prediction rounded to the nearest node.

    What the paper's code does otherwise is in `papers.losses.paper_code`.

    Args:
        dimension: D, the size of an embedding.
        top_label: Highest label: `TOP_SCORE`, or the number of classes minus one.
        features: Input of the head: ``u_v``, ``diff``, ``u_v_diff``, or ``cosine``, whose head starts at
            d times the highest label times the cosine.
        spacing: d, the distance of neighbouring nodes, positive.
        clamp: End nodes at which a prediction is clamped: ``none``; ``both``, as in the paper for the losses
            with a buffer zone; ``left``, as in its code.
    """

    needs = Needs(views=(2,), labels=("score", "class"), min_batch_for_gradient=1)

    def __init__(
        self,
        dimension: int,
        top_label: float,
        features: Features = "u_v_diff",
        spacing: float = 1.0,
        clamp: Clamp = "none",
    ) -> None:
        super().__init__()
        check_positive(spacing=spacing)
        one_of(Clamp, clamp=clamp)
        self.top_label = top_label
        self.features: Features = features
        self.spacing = spacing
        self.clamp: Clamp = clamp
        self.head = nn.Linear(features_size(features, dimension), 1)
        if features == "cosine":  # a random factor may be negative, and would train the opposite
            nn.init.constant_(self.head.weight, spacing * top_label)
            nn.init.zeros_(self.head.bias)

    @abstractmethod
    def penalty(self, error: Tensor) -> Tensor:
        """Compute the penalty of absolute errors: (B,) -> (B,)."""

    def predict(self, first: Tensor, second: Tensor) -> Tensor:
        """Predict labels on the scale of the nodes, not clamped: (B, D), (B, D) -> (B,)."""
        features = pair_features(first, second, self.features)
        return linear(self.head, features).squeeze(-1)

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Compute the loss of views (2, B, D) and scores or classes (B,); see `Loss.forward`."""
        labels = require(self, labels=labels)
        prediction = self.predict(views[0], views[1])
        with torch.no_grad():
            rounded = (prediction / self.spacing).round().clamp(0, self.top_label)
            self.observed = {"accuracy": (rounded == labels.round()).float().mean()}
        return self.penalty(self.error(prediction, labels).abs()).mean()

    def error(self, prediction: Tensor, labels: Tensor) -> Tensor:
        """Compute the distances of clamped predictions from their labels' nodes: (B,), (B,) -> (B,)."""
        # Value of the clamped, gradient of the free prediction: a label elsewhere still pulls it back, and a
        # label at this end has no error and thus no gradient.
        bounded = prediction + (self.clamped(prediction) - prediction).detach()
        return bounded - labels.to(prediction.dtype) * self.spacing

    def clamped(self, prediction: Tensor) -> Tensor:
        """Clamp predictions at the end nodes: (B,) -> (B,)."""
        if self.clamp == "none":
            return prediction
        return prediction.clamp(0, self.spacing * self.top_label if self.clamp == "both" else None)


class ZeroZoneLoss(SiameseRegressionLoss):
    """Regression with a penalty that is zero near the label.

    Args:
        dimension: Size of an embedding; see `SiameseRegressionLoss` for this and the other arguments.
        top_label: Highest label.
        k: Growth rate of the penalty beyond x0, positive; null for ``default_k``.
        x0: Largest error without penalty, at most half of ``spacing``, where the zones of neighbouring
            labels would begin to overlap.
        features: Input of the head.
        spacing: Distance of neighbouring nodes.
        clamp: End nodes at which a prediction is clamped.

    Raises:
        ValueError: k or x0 is out of range.
    """

    default_k = 2.0
    """The paper's k of Smooth K2 on BERT (Table 2); its x0 is 0.25."""

    def __init__(
        self,
        dimension: int,
        top_label: float,
        k: float | None = None,
        x0: float = 0.25,
        features: Features = "u_v_diff",
        spacing: float = 1.0,
        clamp: Clamp = "both",
    ) -> None:
        super().__init__(dimension, top_label, features, spacing, clamp)
        k = self.default_k if k is None else k
        check_positive(k=k)
        if not 0 <= x0 <= spacing / 2:
            raise ValueError(
                f"x0 must lie between 0 and half of spacing ({spacing / 2:g}), got {x0}: "
                "a larger x0 makes a prediction correct for two labels."
            )
        self.k = k
        self.x0 = x0


class L1Loss(SiameseRegressionLoss):
    r"""Absolute error of the predicted label: a baseline of STS-Regression, Table 1.

    .. math:: \mathrm{penalty}(x) = x

    A prediction beyond an end of the label range counts in full, as in the paper, which bounds predictions
    for the losses with a buffer zone only; ``clamp`` bounds them here too.

    See `SiameseRegressionLoss` for the arguments and the head.

    Use it when a plain regression baseline is needed. `MSELoss` weights large errors more;
    `TranslatedReLULoss` and `SmoothK2Loss` ignore errors too small to change the rounded label.

    Example:
        >>> loss = L1Loss(dimension=16, top_label=5)
        >>> value = loss(torch.randn(2, 8, 16), 5 * torch.rand(8))
    """

    def penalty(self, error: Tensor) -> Tensor:
        """Compute the penalty of absolute errors; see `SiameseRegressionLoss.penalty`."""
        return error


class MSELoss(SiameseRegressionLoss):
    r"""Squared error of the predicted label: a baseline of STS-Regression, Table 1.

    .. math:: \mathrm{penalty}(x) = x^2

    Bounds, arguments and head are those of `L1Loss`, which weights large errors less.

    Example:
        >>> loss = MSELoss(dimension=16, top_label=5)
        >>> value = loss(torch.randn(2, 8, 16), 5 * torch.rand(8))
    """

    def penalty(self, error: Tensor) -> Tensor:
        """Compute the penalty of absolute errors; see `SiameseRegressionLoss.penalty`."""
        return error.square()


class TranslatedReLULoss(ZeroZoneLoss):
    r"""Zero near the label, then a line of slope k (STS-Regression, Eq. 1).

    .. math:: \mathrm{penalty}(x) = k \max(0, x - x_0)

    See `ZeroZoneLoss` for the arguments and `SiameseRegressionLoss` for the head. The penalty is that of `the
    code <https://github.com/ZBWpro/STS-Regression/blob/02bed715c24d14a74ecbf7dc5b5a028d7470e6e7/code/loss.py#L5-L13>`_.

    Use it when labels are ordered classes and a few large errors should not dominate.
    `SmoothK2Loss` is the quadratic form; x0 = 0 and k = 1 give `L1Loss`.

    Example:
        >>> loss = TranslatedReLULoss(dimension=16, top_label=2)
        >>> value = loss(torch.randn(2, 8, 16), torch.arange(8) % 3)
    """

    default_k = 2.5
    """The paper's k of Translated ReLU on BERT (Table 2)."""

    def penalty(self, error: Tensor) -> Tensor:
        """Compute the penalty of absolute errors; see `SiameseRegressionLoss.penalty`."""
        return self.k * F.relu(error - self.x0)


class SmoothK2Loss(ZeroZoneLoss):
    r"""Zero near the label, then a parabola (STS-Regression, Eq. 2).

    .. math:: \mathrm{penalty}(x) = k \max(0, x - x_0)^2

    See `ZeroZoneLoss` for the arguments and `SiameseRegressionLoss` for the head. The penalty is that of `the
    code <https://github.com/ZBWpro/STS-Regression/blob/02bed715c24d14a74ecbf7dc5b5a028d7470e6e7/code/loss.py#L16-L26>`_.

    Use it when errors just beyond x0 should count little: the derivative is continuous there.
    `TranslatedReLULoss` is the linear form, which bounds the influence of outliers; x0 = 0 and k = 1 give
    `MSELoss`.

    Example:
        >>> loss = SmoothK2Loss(dimension=16, top_label=2)
        >>> value = loss(torch.randn(2, 8, 16), torch.arange(8) % 3)
    """

    def penalty(self, error: Tensor) -> Tensor:
        """Compute the penalty of absolute errors; see `SiameseRegressionLoss.penalty`."""
        return self.k * F.relu(error - self.x0).square()

"""Smooth K2, for regression on ordered labels."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.siamese import Clamp, Features, ZeroZoneLoss


class SmoothK2Loss(ZeroZoneLoss):
    r"""Zero near the label, then a parabola (STS-Regression, Eq. 6); its derivative is continuous at x0.

    .. math:: \mathrm{penalty}(x) = k \max(0, x - x_0)^2

    See `ZeroZoneLoss` for the arguments and `SiameseRegressionLoss` for the head.
    """

    def __init__(
        self,
        k: float = 2.0,
        x0: float = 0.25,
        features: Features = "u_v_diff",
        spacing: float = 1.0,
        clamp: Clamp = "both",
        official: bool = False,
    ) -> None:
        super().__init__(k, x0, features, spacing, clamp, official)

    def penalty(self, error: Tensor) -> Tensor:
        """See `SiameseRegressionLoss.penalty`."""
        return self.k * F.relu(error - self.x0).square()

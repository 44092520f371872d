"""Translated ReLU, for regression on ordered labels."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.siamese import Clamp, Features, ZeroZoneLoss


class TranslatedReLULoss(ZeroZoneLoss):
    r"""Zero near the label, then a line of slope k (STS-Regression, Eq. 5).

    .. math:: \mathrm{penalty}(x) = k \max(0, x - x_0)

    See `ZeroZoneLoss` for the arguments and `SiameseRegressionLoss` for the head.
    """

    def __init__(
        self,
        k: float = 2.5,
        x0: float = 0.25,
        features: Features = "u_v_diff",
        spacing: float = 1.0,
        clamp: Clamp = "both",
        official: bool = False,
    ) -> None:
        super().__init__(k, x0, features, spacing, clamp, official)

    def penalty(self, error: Tensor) -> Tensor:
        """See `SiameseRegressionLoss.penalty`."""
        return self.k * F.relu(error - self.x0)

"""Translated ReLU, for regression on ordered labels."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.siamese import Clamp, Features, SiameseRegressionLoss, check_translation


class TranslatedReLULoss(SiameseRegressionLoss):
    r"""Zero near the label, then a line (STS-Regression, Eq. 5).

    .. math:: \mathrm{penalty}(x) = k \max(0, x - x_0)

    Args:
        k: Slope, positive.
        x0: Error that costs nothing, at most half of ``spacing``.
        features: See `SiameseRegressionLoss`, as for the following.
        spacing: Distance of neighbouring labels' nodes.
        clamp: Ends that bound a prediction.
        official: Behave as the papers' code.
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
        super().__init__(features, spacing, clamp, official)
        check_translation(k, x0, spacing)
        self.k, self.x0 = k, x0

    def penalty(self, error: Tensor) -> Tensor:
        """See `SiameseRegressionLoss.penalty`."""
        return self.k * F.relu(error - self.x0)

"""The absolute error, the plainest regression."""

from __future__ import annotations

from torch import Tensor

from sts_lightning.losses.siamese import Clamp, Features, SiameseRegressionLoss


class L1Loss(SiameseRegressionLoss):
    r"""Absolute error of the predicted label: the baseline of STS-Regression, Table 1.

    Args:
        features: See `SiameseRegressionLoss`, as for the following.
        spacing: Distance of neighbouring labels' nodes.
        clamp: Ends that bound a prediction.
        official: Behave as the papers' code.
    """

    def __init__(
        self,
        features: Features = "u_v_diff",
        spacing: float = 1.0,
        clamp: Clamp = "both",
        official: bool = False,
    ) -> None:
        super().__init__(features, spacing, clamp, official)

    def penalty(self, error: Tensor) -> Tensor:
        """See `SiameseRegressionLoss.penalty`."""
        return error

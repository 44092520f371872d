"""The squared error, the usual regression."""

from __future__ import annotations

from torch import Tensor

from sts_lightning.losses.siamese import SiameseRegressionLoss


class MSELoss(SiameseRegressionLoss):
    """Squared error of the predicted label: a baseline of STS-Regression, Table 1.

    See `SiameseRegressionLoss` for the arguments and the head.
    """

    def penalty(self, error: Tensor) -> Tensor:
        """See `SiameseRegressionLoss.penalty`."""
        return error.square()

"""Squared error, for regression on ordered labels."""

from __future__ import annotations

from torch import Tensor

from sts_lightning.losses.siamese import SiameseRegressionLoss


class MSELoss(SiameseRegressionLoss):
    r"""Squared error of the predicted label: a baseline of STS-Regression, Table 1.

    .. math:: \mathrm{penalty}(x) = x^2

    A prediction beyond an end of the label range counts in full, as in the paper, which bounds predictions
    for the losses with a buffer zone only; ``clamp`` bounds them here too.

    See `SiameseRegressionLoss` for the arguments and the head.

    Use it when a plain regression baseline is needed. `L1Loss` weights large errors less;
    `TranslatedReLULoss` and `SmoothK2Loss` ignore errors too small to change the rounded label.

    Example:
        >>> loss = MSELoss(dimension=16, top_label=5)
        >>> value = loss(torch.randn(2, 8, 16), 5 * torch.rand(8))
    """

    def penalty(self, error: Tensor) -> Tensor:
        """Compute the penalty of absolute errors; see `SiameseRegressionLoss.penalty`."""
        return error.square()

"""Smooth K2, for regression on ordered labels."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.siamese import ZeroZoneLoss


class SmoothK2Loss(ZeroZoneLoss):
    r"""Zero near the label, then a parabola (STS-Regression, Eq. 2).

    .. math:: \mathrm{penalty}(x) = k \max(0, x - x_0)^2

    See `ZeroZoneLoss` for the arguments and `SiameseRegressionLoss` for the head and its deviations from the
    paper's code. The penalty is that of `the code
    <https://github.com/ZBWpro/STS-Regression/blob/02bed715c24d14a74ecbf7dc5b5a028d7470e6e7/code/loss.py#L16-L26>`_.

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

"""Translated ReLU, for regression on ordered labels."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.siamese import ZeroZoneLoss


class TranslatedReLULoss(ZeroZoneLoss):
    r"""Zero near the label, then a line of slope k (STS-Regression, Eq. 1).

    .. math:: \mathrm{penalty}(x) = k \max(0, x - x_0)

    See `ZeroZoneLoss` for the arguments and `SiameseRegressionLoss` for the head and its deviations from the
    paper's code. The penalty is that of `the code
    <https://github.com/ZBWpro/STS-Regression/blob/02bed715c24d14a74ecbf7dc5b5a028d7470e6e7/code/loss.py#L5-L13>`_.

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

"""Lin's concordance correlation as a loss."""

from __future__ import annotations

import torch
from torch import Tensor

from sts_lightning.losses.base import TOP_SCORE, Loss, Needs, cosine_rows, require
from sts_lightning.losses.pearson import RESOLUTION


class ConcordanceLoss(Loss):
    r"""One minus the concordance correlation of cosine and score over the batch (Lin 1989).

    .. math:: L = 1 - \rho_c, \quad \rho_c =
        \frac{2\,\mathrm{cov}(x, y)}{\mathrm{var}(x) + \mathrm{var}(y) + (\bar x - \bar y)^2}

    with x the cosine of a pair and y its score divided by 5. The concordance correlation measures agreement
    with the line x = y: it is Pearson's correlation times a factor of at most 1, which is 1 where means and
    standard deviations are equal. Since L is also the mean squared difference of x and y over the
    denominator, it combines `CosineMSELoss` and `PearsonLoss`. L lies in [0, 2]. Where all cosines and scores
    of a batch are the same number (denominator below 1e-12) the correlation is taken as 0 and the batch has
    no gradient.

    Use it when cosines should rank the pairs and also equal the scores on [0, 1], for example to compare them
    with a threshold. `PearsonLoss` leaves shift and scale of the cosines free.

    Example:
        >>> loss = ConcordanceLoss()
        >>> value = loss(torch.randn(2, 8, 16), 5 * torch.rand(8))
    """

    needs = Needs(views=(2,), labels=("score",), different_labels=True)

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Compute the loss of views (2, B, D) and scores (B,); see `Loss.forward`."""
        cosines = cosine_rows(views[0], views[1])
        return 1 - concordance(cosines, require(self, labels=labels).to(cosines.dtype) / TOP_SCORE)


def concordance(x: Tensor, y: Tensor) -> Tensor:
    """Compute the concordance correlation with population moments: (B,), (B,) -> scalar in [-1, 1].

    Where the denominator is below the square of `RESOLUTION` the correlation is undefined: it is taken as 0
    and has no gradient. A NaN in either list gives NaN.
    """
    shift = x.mean() - y.mean()
    x, y = x - x.mean(), y - y.mean()
    whole = x.square().mean() + y.square().mean() + shift.square()
    undefined = whole <= RESOLUTION**2  # in this form NaN counts as defined
    return torch.where(undefined, 0.0, 2 * (x * y).mean() / torch.where(undefined, 1.0, whole))

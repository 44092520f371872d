"""RAOE's gated angular term."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.base import require, upcast
from sts_lightning.losses.cosent import CoSENTLoss


class GatedAngleLoss(CoSENTLoss):
    r"""CoSENT on angles, of pairs whose label and teacher agree about the order (RAOE, EMNLP 2025).

    .. math:: L = \log\Bigl(1 + \sum_{i,j:\, y_i < y_j,\, t_i < t_j} e^{s (\theta_j - \theta_i)}\Bigr), \quad
        \theta = \arccos(x)

    with x the cosine of a pair, y its label and t the teacher's similarity of the pair. The angle, unlike the
    cosine, does not saturate near 0 and pi. The gate t drops every two pairs whose order the teacher
    contradicts, such as a neutral pair that is more similar than an entailment; without a teacher
    (``auxiliary=none``) all are kept. Time and memory are O(B^2). RAOE adds this term to `RankMarginLoss` on
    NLI pairs that have both a class and a similarity of another model (Zhou et al. 2025).

    The equation is that of `the authors' code
    <https://github.com/Shengjingwa/RAOE/blob/c8d14d57eb47a8d3995e332f99bf4f1bd79f59be/RAOE/loss.py#L44-L88>`_,
    with classes counted from the least similar. It clamps cosines at 0.999999, which removes the gradient
    above; here the angle of unit vectors is :math:`2\,\mathrm{atan2}(|u - v|, |u + v|)`, which needs no
    bound.

    Use it when labels are ordered classes and there is a model whose similarities of pairs can be trusted
    more than the classes. `AnglELoss` is CoSENT on a similarity in complex space.

    Args:
        scale: s, positive; the inverse of a temperature, in radians.

    Example:
        >>> loss = GatedAngleLoss()
        >>> value = loss(torch.randn(2, 8, 16), torch.arange(8) % 3, teacher=torch.rand(8, 8))
    """

    takes = ("teacher",)

    def forward(self, views: Tensor, labels: Tensor | None = None, teacher: Tensor | None = None) -> Tensor:
        """Compute the loss of views (2, B, D) and scores or ordered classes (B,); see `Loss.forward`.

        Args:
            views: The sentences of each pair.
            labels: Scores or ordered classes, (B,).
            teacher: The teacher's similarities of first to second sentences, (B, B), of which the diagonal is
                read.
        """
        y = require(self, labels=labels)
        s = self.scale * self.similarity(views[0], views[1])
        compared = y[:, None] < y[None, :]
        if teacher is not None:
            t = teacher.diagonal()
            compared = compared & (t[:, None] < t[None, :])
        terms = (s[:, None] - s[None, :]).masked_fill(~compared, -torch.inf).flatten()
        # exp(0) is the 1 in the logarithm; 0 * s propagates a NaN even where nothing is compared.
        return torch.cat([0 * s.sum().reshape(1), terms]).logsumexp(0)

    def similarity(self, first: Tensor, second: Tensor) -> Tensor:
        """Compute pi minus the angle of corresponding rows: (B, D), (B, D) -> (B,)."""
        return torch.pi - angle(first, second)


def angle(first: Tensor, second: Tensor) -> Tensor:
    """Compute the angles of corresponding rows in radians, at least in float32: (B, D), (B, D) -> (B,).

    The gradient is 0 where two rows have the same or the opposite direction.
    """
    u, v = F.normalize(upcast(first), dim=-1), F.normalize(upcast(second), dim=-1)
    return 2 * torch.atan2((u - v).norm(dim=-1), (u + v).norm(dim=-1))

"""AnglE's similarity in complex space."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.base import upcast
from sts_lightning.losses.cosent import CoSENTLoss


class AnglELoss(CoSENTLoss):
    r"""CoSENT on the angle between the vectors read as complex numbers (AnglE, Eq. 7).

    .. math:: s = \tau\,\Bigl|\sum_k \mathrm{Re}\,q_k + \mathrm{Im}\,q_k\Bigr|
        = \tau \left|\cos(u, v) + \frac{b \cdot c - a \cdot d}{|u|\,|v|}\right|

    where the halves of u = [a; b] and v = [c; d] are real and imaginary parts and q is their normalised
    quotient. Although it is named after an angle it acts as a similarity. AnglE's full objective adds
    CoSENT and in-batch negatives, which `loss=mix` can.

    Args:
        scale: tau, positive: 20 in today's code, 1 in that of 2023.
    """

    def check_dimension(self, dimension: int) -> None:
        """Reject an odd size: the halves of a vector are its real and imaginary parts."""
        if dimension % 2:
            raise ValueError(f"AnglELoss needs embeddings of even size, but they have {dimension}.")

    def similarity(self, first: Tensor, second: Tensor) -> Tensor:
        """See `angle_similarity`."""
        return angle_similarity(first, second)


def angle_similarity(first: Tensor, second: Tensor) -> Tensor:
    """|cos(u, v) + (b.c - a.d) / (|u| |v|)| of corresponding rows: (B, D), (B, D) -> (B,)."""
    u, v = F.normalize(upcast(first), dim=-1), F.normalize(upcast(second), dim=-1)
    a, b = u.chunk(2, dim=-1)
    c, d = v.chunk(2, dim=-1)
    return (a * c + b * d + b * c - a * d).sum(dim=-1).abs()

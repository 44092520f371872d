"""AnglE's similarity in complex space."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.base import upcast
from sts_lightning.losses.cosent import CoSENTLoss


class AnglELoss(CoSENTLoss):
    r"""CoSENT on a similarity in complex space (AnglE, Li and Li 2024, Eq. 7).

    .. math:: s = \tau\,\Bigl|\sum_k \mathrm{Re}\,q_k + \mathrm{Im}\,q_k\Bigr|
        = \tau \left|\cos(u, v) + \frac{b \cdot c - a \cdot d}{|u|\,|v|}\right|

    where the halves of u = [a; b] and v = [c; d] are real and imaginary parts and q is their normalised
    quotient. Despite its name the value acts as a similarity. CoSENT with this similarity instead of the
    cosine is AnglE's angle term; AnglE's full objective is the sum of CoSENT, this term and `IBNLoss`, which
    ``experiment=angle_llama`` builds with `MixLoss`.

    Use it when the cosine saturates (pairs near +1 or -1 hardly move), together with CoSENT, as in AnglE,
    rather than alone.

    The default of tau is that of `AnglE's training code
    <https://github.com/SeanLee97/AnglE/blob/5155458cfa6f7fbc7a8a19a66960cd86eadfd534/angle_emb/angle.py#L588>`_;
    its `loss function
    <https://github.com/SeanLee97/AnglE/blob/5155458cfa6f7fbc7a8a19a66960cd86eadfd534/angle_emb/loss.py#L47>`_
    defaults to 1.

    Args:
        scale: tau, positive.

    Raises:
        ValueError: The scale is out of range; in `forward`: D is odd, but the halves of a vector are its real
            and imaginary parts.

    Example:
        >>> loss = AnglELoss()
        >>> value = loss(torch.randn(2, 8, 16), 5 * torch.rand(8))
    """

    def similarity(self, first: Tensor, second: Tensor) -> Tensor:
        """Compute the complex-space similarity; see `angle_similarity`."""
        return angle_similarity(first, second)


def angle_similarity(first: Tensor, second: Tensor) -> Tensor:
    """Compute |cos(u, v) + (b.c - a.d) / (|u| |v|)| of corresponding rows: (B, D), (B, D) -> (B,)."""
    if first.shape[-1] % 2:
        raise ValueError(f"AnglELoss needs embeddings of even size, but they have {first.shape[-1]}.")
    u, v = F.normalize(upcast(first), dim=-1), F.normalize(upcast(second), dim=-1)
    a, b = u.chunk(2, dim=-1)
    c, d = v.chunk(2, dim=-1)
    return (a * c + b * d + b * c - a * d).sum(dim=-1).abs()

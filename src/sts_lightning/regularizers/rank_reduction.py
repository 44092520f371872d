"""Rank reduction: a lower von Neumann entropy of the embeddings."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.base import check, one_of
from sts_lightning.regularizers.base import Regularizer

Rows = Literal["first", "second", "both", "each"]
"""Rows of the matrix: those of the first view, of the second, of both together, or of each separately."""

Direction = Literal["decrease", "increase", "none"]

ZERO = {torch.float32: 1e-8, torch.float64: 1e-12}
"""Eigenvalue, of a sum of 1, up to which it counts as 0; rounding in float32 is 1e-7 of the largest one."""

SIGNS: dict[Direction, float] = {"decrease": 1.0, "increase": -1.0, "none": 0.0}


class RankReduction(Regularizer):
    r"""Coefficient times the von Neumann entropy of the embeddings (rank-reduction paper, Eq. 6).

    .. math:: \gamma S = -\gamma \sum_j \lambda_j \log \lambda_j

    with lambda the eigenvalues of :math:`Z^T Z / N` for rows Z of unit length. S lies between 0 (all rows
    on one line) and log min(N, D); a positive coefficient lowers it. Eq. 6 as printed has the opposite
    sign, which would raise the rank; its tables and text use the sign used here. The entropy S is that of the
    `VNE code
    <https://github.com/jaeill/CVPR23-VNE/blob/c63961b05b66bb1ddeadf5ff129c7f1aabda392f/vne/__init__.py#L15-L19>`_.
    The paper does not state which tensor it acts on; here it acts on the input of the loss, and ``views``
    selects the rows.

    The direction can differ between phase 1 (the rank rises) and phase 2 (it falls) of training, as in the
    paper's Table 1; `RankMonitor` detects the switch during training and calls `enter`.

    Use it when contrastive training leaves embeddings of higher rank than the task needs. It can be added to
    any loss; tune its coefficient on dev data. `GlobalOrthogonal` acts in the opposite direction: it spreads
    the embeddings out.

    Args:
        coefficient: gamma, not negative. The paper uses 1e-3 for most models, and 1e-4 to 3e-3.
        views: Rows of Z.
        phase1: Direction while the rank rises.
        phase2: Direction after its peak.

    Raises:
        ValueError: An argument is out of range.

    Example:
        >>> regularizer = RankReduction(coefficient=1e-3)
        >>> value = regularizer(torch.randn(2, 8, 16))
    """

    phase: Tensor

    def __init__(
        self,
        coefficient: float = 1e-3,
        views: Rows = "both",
        phase1: Direction = "decrease",
        phase2: Direction = "decrease",
    ) -> None:
        super().__init__()
        must = "be finite and not negative; to raise the rank, set phase1=increase and phase2=increase"
        check(0 <= coefficient < math.inf, must, coefficient=coefficient)
        one_of(Rows, views=views)
        one_of(Direction, phase1=phase1, phase2=phase2)
        self.coefficient = coefficient
        self.views: Rows = views
        self.directions = (phase1, phase2)
        self.least_views = 1 if views in ("first", "both") else 2
        self.needs_phases = phase1 != phase2
        self.register_buffer("phase", torch.ones((), dtype=torch.int64))
        self._phase = 1  # the same on the host: to read it from a GPU, each step would wait for the card
        self.register_load_state_dict_post_hook(_read_phase)  # type: ignore[no-untyped-call]

    def enter(self, phase: int) -> None:
        """Begin phase 1 or 2."""
        self.phase.fill_(phase)
        self._phase = phase

    def forward(self, views: Tensor) -> Tensor:
        """Compute the term of embeddings (V, B, D), at least in float32."""
        sign = SIGNS[self.directions[self._phase - 1]]
        if sign == 0 or self.coefficient == 0:
            return views.new_zeros((), dtype=torch.float32)
        if self.views == "both":
            matrices = [views[:2].flatten(0, 1)]
        elif self.views == "each":
            matrices = list(views[:2])
        else:
            matrices = [views[0 if self.views == "first" else 1]]
        entropy = torch.stack([von_neumann_entropy(vectors) for vectors in matrices]).mean()
        return sign * self.coefficient * entropy


def von_neumann_entropy(vectors: Tensor) -> Tensor:
    """Compute the entropy of the eigenvalues of Z^T Z / N, rows Z of unit length: (N, D) -> scalar.

    The entropy lies in [0, log min(N, D)]. The eigenvalues are computed from the smaller of the two Gram
    matrices, in float32, or in float64 for rows in float64. Those up to `ZERO` count as 0: between random
    rows the entropy is that of float64 to 1e-6 and its gradient to 2e-5 of its length; where all cosines are
    0.9975, to 4e-5 and 1 %; where they exceed 0.9999, the gradient is off by a quarter.
    """
    dtype = torch.promote_types(vectors.dtype, torch.float32)
    with torch.autocast(vectors.device.type, enabled=False):
        unit = F.normalize(vectors.to(dtype), dim=-1)
        size, dimension = unit.shape
        gram = (unit @ unit.T if size <= dimension else unit.T @ unit) / size
    eigenvalues = torch.linalg.eigvalsh(gram)
    # Eigenvalues that are 0 up to rounding have no entropy, but their logarithm has an infinite gradient.
    zero = eigenvalues <= ZERO[dtype]
    safe = torch.where(zero, 1.0, eigenvalues)
    return -torch.where(zero, 0.0, safe * safe.log()).sum()


def _read_phase(module: RankReduction, incompatible_keys: Any) -> None:
    module._phase = int(module.phase)

"""Rank reduction: a lower von Neumann entropy of the embeddings."""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Which = Literal["first", "second", "both", "each"]
"""The rows that it reads: those of the first view, of the second, of both together, or of each in turn."""

Direction = Literal["decrease", "increase", "none"]

SIGNS: dict[Direction, float] = {"decrease": 1.0, "increase": -1.0, "none": 0.0}


class RankReduction(nn.Module):
    r"""Coefficient times the von Neumann entropy of the embeddings (rank-reduction paper, Eq. 6).

    .. math:: \gamma S = -\gamma \sum_j \lambda_j \log \lambda_j

    with lambda the eigenvalues of :math:`Z^T Z / N` for rows Z of unit length. S lies between 0 (all rows
    on one line) and log min(N, D); a positive coefficient lowers it. Eq. 6 as printed has the opposite
    sign, which would raise the rank; its tables and text mean the sign used here. The paper does not say
    which tensor it acts on; here it is the one that the loss sees, and ``views`` chooses its rows.

    What happens can differ between phase 1 (the rank rises) and phase 2 (it falls) of training, as in the
    paper's Table 1; `RankMonitor` finds the switch on line and sets ``phase``.

    Args:
        coefficient: gamma, not negative. The paper: 1e-3 for most models, from 1e-4 to 3e-3.
        views: Which rows are read.
        phase1: Direction while the rank rises.
        phase2: Direction after its peak.
    """

    phase: Tensor

    def __init__(
        self,
        coefficient: float = 1e-3,
        views: Which = "both",
        phase1: Direction = "decrease",
        phase2: Direction = "decrease",
    ) -> None:
        super().__init__()
        if not 0 <= coefficient < math.inf:
            raise ValueError(
                f"coefficient must be finite and not negative, got {coefficient}; to raise "
                "the rank, set phase1=increase and phase2=increase."
            )
        if views not in get_args(Which):
            known = ", ".join(get_args(Which))
            raise ValueError(f"views must be one of {known}, got {views!r}.")
        for name, direction in (("phase1", phase1), ("phase2", phase2)):
            if direction not in SIGNS:
                raise ValueError(f"{name} must be one of {', '.join(SIGNS)}, got {direction!r}.")
        self.coefficient = coefficient
        self.views: Which = views
        self.directions = (phase1, phase2)
        self.register_buffer("phase", torch.ones((), dtype=torch.int64))

    @property
    def needs_phases(self) -> bool:
        """Whether the two phases differ, so that someone has to tell which one it is."""
        return self.directions[0] != self.directions[1]

    def forward(self, views: Tensor) -> Tensor:
        """Embeddings (V, B, D) to a scalar of the embeddings' precision, at least float32."""
        sign = SIGNS[self.directions[int(self.phase) - 1]]
        if sign == 0 or self.coefficient == 0:
            return views.new_zeros((), dtype=torch.float32)
        parts = {
            "first": [views[0]],
            "second": [views[1]],
            "both": [views[:2].flatten(0, 1)],
            "each": list(views[:2]),
        }[self.views]
        entropy = torch.stack([von_neumann_entropy(part) for part in parts]).mean()
        return sign * self.coefficient * entropy


def von_neumann_entropy(vectors: Tensor) -> Tensor:
    r"""Entropy of the eigenvalues of Z^T Z / N, rows Z of unit length: (N, D) -> scalar.

    It lies in [0, log min(N, D)]. Eigenvalues are those of the smaller of the two Gram matrices, in
    float64; those that are zero up to rounding are left out, as their contribution to entropy and gradient
    vanishes.
    """
    unit = F.normalize(vectors.double(), dim=-1)
    size, dimension = unit.shape
    gram = (unit @ unit.T if size <= dimension else unit.T @ unit) / size
    eigenvalues = torch.linalg.eigvalsh(gram)
    zero = eigenvalues <= 1e-12
    safe = torch.where(zero, 1.0, eigenvalues)
    entropy = -torch.where(zero, 0.0, safe * safe.log()).sum()
    return entropy.to(vectors.dtype if vectors.dtype == torch.float64 else torch.float32)

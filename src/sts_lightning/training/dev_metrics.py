"""Correlations on the dev pairs, collected batch by batch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torchmetrics import PearsonCorrCoef
from torchmetrics.functional import spearman_corrcoef

from sts_lightning.errors import TrainingError
from sts_lightning.text import counted

MONITOR = "dev/spearman"
"""Metric by which checkpoints are selected: Spearman's correlation times 100 on the dev pairs."""


class DevMetrics:
    """Spearman's and Pearson's correlation of cosines with gold scores: of a suite, the means of its parts.

    Every process sees all pairs, in the order of the dev set, so that nothing is synchronised.
    """

    def __init__(self) -> None:
        self._batches: list[tuple[Tensor, Tensor]] = []

    def update(self, cosines: Tensor, gold: Tensor) -> None:
        """Add the next pairs: cosines and gold scores, both (B,)."""
        self._batches.append((cosines, gold))

    def compute(self, parts: Mapping[str, slice], identical: np.ndarray | None = None) -> dict[str, Tensor]:
        """Return the correlations, in [-1, 1], and forget the pairs.

        Args:
            parts: Rows of each part of a suite; empty for dev pairs of one kind.
            identical: Which rows have the same sentence twice, (N,). They are tied at a cosine of 1, as in
                the report: two vectors of one sentence differ by rounding, in bfloat16 by 0.001.

        Returns:
            `MONITOR`, Pearson's correlation and, of a suite, Spearman's for each part.

        Raises:
            TrainingError: A cosine is NaN or infinite, which has no rank.
        """
        cosines, gold = (torch.cat(column) for column in zip(*self._batches, strict=True))
        wrong = int((~torch.isfinite(cosines)).sum())
        if wrong:
            self._batches.clear()
            pairs = counted(len(cosines), "dev pair")
            raise TrainingError(f"the cosines of {wrong:,} of {pairs} are NaN or infinite")
        if identical is not None and identical.any():
            cosines[torch.from_numpy(identical[: len(cosines)]).to(cosines.device)] = 1.0
        pieces = [[(cosines[rows], gold[rows])] for rows in parts.values() or [slice(None)]]
        pearson = [_pearson(piece) for piece in pieces]
        # On the CPU, since ranks have no deterministic form on CUDA.
        ranked = [(cosines[rows].cpu(), gold[rows].cpu()) for rows in parts.values() or [slice(None)]]
        spearman = [spearman_corrcoef(*both) for both in ranked]
        own = {f"dev/{name}": value for name, value in zip(parts, spearman, strict=False)}
        self._batches.clear()
        return {MONITOR: torch.stack(spearman).mean(), "dev/pearson": torch.stack(pearson).mean(), **own}


def _pearson(batches: list[tuple[Tensor, Tensor]]) -> Tensor:
    metric = PearsonCorrCoef(sync_on_compute=False).to(batches[0][0].device)
    for cosines, gold in batches:
        metric.update(cosines, gold)
    value: Tensor = metric.compute()
    return value

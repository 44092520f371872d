"""Base class of all regularizers."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn


class Regularizer(nn.Module, ABC):
    """Base class of terms that are added to a loss: functions of the embeddings of a batch.

    Attributes:
        least_views: Smallest number of views that the term can read.
        needs_phases: Whether the term needs a `RankMonitor` to detect the phases of training.
    """

    least_views: int = 1
    needs_phases: bool = False

    @abstractmethod
    def forward(self, views: Tensor) -> Tensor:
        """Compute the term.

        Args:
            views: Embeddings, shape (V, B, D), any floating dtype.

        Returns:
            A scalar, at least in float32.
        """

"""Base class of all regularizers."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn


class Regularizer(nn.Module, ABC):
    """Base class of terms that are added to a loss: functions of the embeddings of a batch."""

    @property
    def least_views(self) -> int:
        """Return the smallest number of views that the term can read."""
        return 1

    @property
    def needs_phases(self) -> bool:
        """Return whether the term needs a `RankMonitor` to detect the phases of training."""
        return False

    @abstractmethod
    def forward(self, views: Tensor) -> Tensor:
        """Compute the term.

        Args:
            views: Embeddings, shape (V, B, D), any floating dtype.

        Returns:
            A scalar, at least in float32.
        """

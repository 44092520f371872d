"""Sentence-BERT's classifier of sentence pairs."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from sts_lightning.losses.base import Loss, Needs, require
from sts_lightning.losses.regression import Features, features_size, linear, pair_features


class CrossEntropyLoss(Loss):
    r"""Softmax over K classes of a pair (Sentence-BERT, Sec. 3, "classification objective").

    .. math:: L = -\frac1B \sum_i \log \mathrm{softmax}(W [u_i; v_i; |u_i - v_i|] + b)_{y_i}

    with K given by the data. `metrics` has the accuracy.

    Use it when the classes of a pair have no order. For ordered classes, such as contradiction, neutral,
    entailment, the regression losses (`SmoothK2Loss`, `TranslatedReLULoss`) put the same features through
    a head with one output.

    Args:
        dimension: D, the size of an embedding.
        top_label: K - 1, the highest class.
        features: Input of the head: ``u_v``, ``diff``, ``u_v_diff`` or ``cosine``.

    Example:
        >>> loss = CrossEntropyLoss(dimension=16, top_label=2)
        >>> value = loss(torch.randn(2, 8, 16), torch.arange(8) % 3)
    """

    needs = Needs(views=(2,), labels=("class",), min_batch_for_gradient=1)

    def __init__(self, dimension: int, top_label: float, features: Features = "u_v_diff") -> None:
        super().__init__()
        self.features: Features = features
        self.head = nn.Linear(features_size(features, dimension), int(top_label) + 1)

    def logits(self, first: Tensor, second: Tensor) -> Tensor:
        """Compute the logits of the classes: (B, D), (B, D) -> (B, K)."""
        features = pair_features(first, second, self.features)
        return linear(self.head, features)

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Compute the loss of views (2, B, D) and classes (B,); see `Loss.forward`."""
        labels = require(self, labels=labels)
        return F.cross_entropy(self.logits(views[0], views[1]), labels)

    def metrics(self, views: Tensor, labels: Tensor | None = None, **inputs: Any) -> dict[str, Tensor]:
        """Return the accuracy."""
        classes = self.logits(views[0], views[1]).argmax(dim=-1)
        return {"accuracy": (classes == require(self, labels=labels)).float().mean()}

"""Sentence-BERT's classifier of sentence pairs."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sts_lightning.losses.base import Loss, require_labels
from sts_lightning.losses.siamese import Features, features_size, linear, pair_features


class CrossEntropyLoss(Loss):
    r"""Softmax over K classes of a pair (Sentence-BERT, Sec. 3, "classification objective").

    .. math:: L = -\frac1B \sum_i \log \mathrm{softmax}(W [u_i; v_i; |u_i - v_i|] + b)_{y_i}

    K is that of the data. ``observed`` has the accuracy.

    Args:
        features: What the head reads.
    """

    views = (2,)
    labels = ("class",)

    def __init__(self, features: Features = "u_v_diff") -> None:
        super().__init__()
        features_size(features, 1)
        self.features: Features = features

    def make_head(self, dimension: int, top_label: float) -> None:
        """The linear map from M D features to K logits."""
        self.head = nn.Linear(features_size(self.features, dimension), int(top_label) + 1)

    def logits(self, first: Tensor, second: Tensor) -> Tensor:
        """Logits of each class: (B, D), (B, D) -> (B, K)."""
        features = pair_features(first, second, self.features)
        return linear(self.head, features)

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Views (2, B, D) and classes (B,) to a scalar; see `Loss.forward`."""
        labels = require_labels(self, labels)
        logits = self.logits(views[0], views[1])
        with torch.no_grad():
            self.observed = {"accuracy": (logits.argmax(dim=-1) == labels).float().mean()}
        return F.cross_entropy(logits, labels)

"""A loss of one's own beside one of STS-Lightning, on a generated corpus.

python examples/own_loss.py [MODEL]        a choice of conf/model, as in `python train.py model=...`
"""

import sys
from functools import partial

from torch import Tensor
from torch.nn import functional as F

import sts_lightning
from sts_lightning.losses.base import Loss, Needs, cosine_rows, require

MODEL = sys.argv[1] if len(sys.argv) > 1 else "minilm"


class HuberLoss(Loss):
    """Huber's loss of cosine and score: wrong scores pull less than with squares."""

    needs = Needs(views=(2,), labels=("score",))  # other data is rejected before any weights are loaded

    def __init__(self, delta: float = 0.1) -> None:
        super().__init__()
        self.delta = delta

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Compute the loss of views (2, B, D) and scores in [0, 5], (B,)."""
        scores = require(self, labels=labels) / 5
        cosines = cosine_rows(views[0], views[1])
        return F.huber_loss(cosines, scores.to(cosines.dtype), delta=self.delta)


if __name__ == "__main__":
    for loss in ("cosine_mse", partial(HuberLoss, delta=0.3)):  # or HuberLoss, with its defaults
        settings = {"data.train_size": 640, "trainer.max_epochs": 1}
        run = sts_lightning.train(data="toy", model=MODEL, loss=loss, settings=settings)
        print(f"{run.settings()['loss']}: dev Spearman {run.metrics().score:.2f}")

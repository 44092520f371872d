"""SentEval's PyTorch classifier: softmax regression by Adam, stopped early."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

Examples = tuple[np.ndarray, np.ndarray]
"""Features (N, M) and classes (N,)."""

Predict = Callable[[np.ndarray], np.ndarray]
"""Classes (N,) of features (N, M)."""

SEED = 1111
BATCH_SIZE = 64
EPOCHS_PER_CHECK = 4
CHECKS = 51
"""At most 204 epochs: SentEval goes on while it has trained for 200 or fewer."""
PATIENCE = 6
"""Checks without a new best dev accuracy, in a row or not, that end training.

SentEval's ``tenacity`` is 5, but it compares its count before it adds to it, and never sets it back.
"""
VALIDATION_SPLIT = 0.05


class EarlyStopped:
    """Softmax regression with the weights of its best dev accuracy, as SentEval's with ``usepytorch=True``.

    Settings are those of the papers: no hidden layer, Adam, ``batch_size`` 64, ``tenacity`` 5, ``epoch_size``
    4. See `classifier.py
    <https://github.com/facebookresearch/SentEval/blob/5d6dc117d1ac30357ddaeb7347fb5684e9b87015/senteval/tools/classifier.py>`_.
    Weights and batches are drawn as there, from seed 1111 for each fit, so that results are equal but for
    rounding in float32; no global random state is touched. Penalties share their draws, and so are trained
    side by side, as slices of one matrix.

    Args:
        classes: Number of classes of the task, C.
    """

    grids = dict.fromkeys(("outer folds", "test", "dev"), (1e-5, 1e-4, 1e-3, 1e-2))
    """Weight decays that SentEval tries, by the split that scores them."""

    def __init__(self, classes: int) -> None:
        self.classes = classes

    def accuracies(self, train: Examples, dev: Examples, penalties: Sequence[float]) -> list[float]:
        """Return the accuracy on ``dev``, which also chooses the moment, of each penalty."""
        _, hits = self._train(train, dev, penalties, np.random.RandomState(SEED))
        return [hit / len(dev[1]) for hit in hits.tolist()]

    def fit(self, train: Examples, penalty: float, dev: Examples | None = None) -> Predict:
        """Train with one penalty.

        Args:
            train: Examples.
            penalty: Weight decay.
            dev: Examples that choose the moment; None: a twentieth of ``train``, which is not trained on.
        """
        random = np.random.RandomState(SEED)
        if dev is None:
            order = random.permutation(len(train[1]))
            held_out, rest = np.split(order, [int(VALIDATION_SPLIT * len(order))])
            train, dev = (train[0][rest], train[1][rest]), (train[0][held_out], train[1][held_out])
        weight, _ = self._train(train, dev, [penalty], random)
        return lambda features: self._predict(weight, _with_ones(features))[:, 0].numpy()

    def _train(
        self, train: Examples, dev: Examples, penalties: Sequence[float], random: np.random.RandomState
    ) -> tuple[Tensor, Tensor]:
        """Return the best weights (P, C, M + 1), the last column the bias, and their dev hits (P,)."""
        x, dev_x = _with_ones(train[0]), _with_ones(dev[0])
        y, dev_y = torch.from_numpy(train[1]), torch.from_numpy(dev[1])[:, None]
        one_hot = torch.eye(self.classes)
        weight = self._initial(train[0].shape[1]).repeat(len(penalties), 1, 1)
        decay = torch.tensor(penalties)[:, None, None]
        optimizer = torch.optim.Adam([weight])
        best, best_hits = weight.clone(), torch.full((len(penalties),), -1)
        misses = torch.zeros(len(penalties), dtype=torch.int64)
        for _ in range(CHECKS):
            for _ in range(EPOCHS_PER_CHECK):
                for rows in torch.from_numpy(random.permutation(len(x))).split(BATCH_SIZE):
                    batch = x[rows]
                    # The gradient of the cross-entropy's mean over the batch. SentEval asks for the sum, by
                    # size_average=False on a finished CrossEntropyLoss, which torch no longer reads there.
                    error = (self._logits(weight, batch).softmax(-1) - one_hot[y[rows], None]) / len(rows)
                    gradient = (error.flatten(1).T @ batch).view_as(weight)
                    weight.grad = gradient.addcmul_(weight, decay)  # Adam's own takes one value for all rows
                    optimizer.step()
            hits = (self._predict(weight, dev_x) == dev_y).sum(0)
            running = misses < PATIENCE
            better = running & (hits > best_hits)
            best[better], best_hits[better] = weight[better], hits[better]
            misses += running & ~better
            if (misses == PATIENCE).all():
                break
        return best, best_hits

    def _initial(self, width: int) -> Tensor:
        """Return the weights (C, M + 1) that `torch.nn.Linear` would draw after ``torch.manual_seed``."""
        generator = torch.Generator().manual_seed(SEED)
        weight, bias = torch.empty(self.classes, width), torch.empty(self.classes, 1)
        torch.nn.init.kaiming_uniform_(weight, a=5**0.5, generator=generator)
        bias.uniform_(-(width**-0.5), width**-0.5, generator=generator)
        return torch.cat([weight, bias], dim=1)

    def _logits(self, weight: Tensor, x: Tensor) -> Tensor:
        """(N, P, C)."""
        return (x @ weight.flatten(0, 1).T).view(len(x), -1, self.classes)

    def _predict(self, weight: Tensor, x: Tensor) -> Tensor:
        """Classes (N, P)."""
        return self._logits(weight, x).argmax(-1)


def _with_ones(features: np.ndarray) -> Tensor:
    """Return the features with a column of ones (N, M + 1), the bias's input."""
    return torch.nn.functional.pad(torch.from_numpy(features), (0, 1), value=1.0)

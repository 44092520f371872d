"""Regression heads on the vectors of a frozen encoder, many of them trained at once."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from sts_lightning.data.loader import EpochSampler, Share
from sts_lightning.errors import TrainingError
from sts_lightning.losses.siamese import SiameseRegressionLoss, ZeroZoneLoss, pair_features
from sts_lightning.training.trainer import Plan


@dataclass(frozen=True)
class PairVectors:
    """Labelled pairs of sentences by the vectors of their distinct sentences.

    Attributes:
        vectors: Vectors of the distinct sentences, (N, D) in float32.
        rows: Row of the first and of the second sentence of each pair, (2, P) in int64.
        labels: Label of each pair, (P,): scores in float32, or classes in int64.
    """

    vectors: Tensor
    rows: Tensor
    labels: Tensor

    def views(self, pairs: Tensor) -> Tensor:
        """Return the vectors of some pairs: indices (B,) -> (2, B, D)."""
        return self.vectors[self.rows[:, pairs]]


class HeadBatch(nn.Module):
    r"""H linear heads of one regression loss, each with a k and an x0 of its own, on the same batches.

    .. math:: p_{hi} = w_h \cdot f_i + b_h, \quad
        L_h = \frac1B \sum_i \mathrm{penalty}_h(|p_{hi} - d\,y_i|)

    with the features f and the penalty of `SiameseRegressionLoss`. The gradient of the sum of all L_h by a
    head is that of its own L_h, and AdamW treats each number by itself: a head trains as if it were alone.

    Args:
        losses: Losses whose heads are copied. They differ in their heads, k and x0 alone.
    """

    def __init__(self, losses: Sequence[SiameseRegressionLoss]) -> None:
        super().__init__()
        self.rule = copy.deepcopy(losses[0]).requires_grad_(False)
        if isinstance(self.rule, ZeroZoneLoss):
            zoned = [loss for loss in losses if isinstance(loss, ZeroZoneLoss)]
            like = self.rule.head.weight
            self.rule.k = like.new_tensor([[loss.k] for loss in zoned])
            self.rule.x0 = like.new_tensor([[loss.x0] for loss in zoned])
        self.weight = nn.Parameter(torch.cat([loss.head.weight.detach() for loss in losses]))
        self.bias = nn.Parameter(torch.cat([loss.head.bias.detach() for loss in losses]))

    def predict(self, first: Tensor, second: Tensor) -> Tensor:
        """Predict labels on the scale of the nodes, not clamped: (B, D), (B, D) -> (H, B)."""
        features = pair_features(first, second, self.rule.features)
        return torch.addmm(self.bias[:, None], self.weight, features.T)

    def forward(self, views: Tensor, labels: Tensor) -> Tensor:
        """Compute the loss of each head: views (2, B, D), labels (B,) -> (H,)."""
        return self.rule.penalties(self.predict(views[0], views[1]), labels).mean(dim=1)

    @torch.no_grad()
    def copy_to(self, head: int, loss: SiameseRegressionLoss) -> None:
        """Copy a head, given by its position, into a loss of its own."""
        loss.head.weight.copy_(self.weight[head : head + 1])
        loss.head.bias.copy_(self.bias[head : head + 1])

    def clip_gradients(self, limit: float) -> None:
        """Clip the norm of each head's gradient, as `torch.nn.utils.clip_grad_norm_` does for one head.

        Args:
            limit: Maximum norm.

        Raises:
            RuntimeError: There is no gradient yet.
        """
        weight, bias = self.weight.grad, self.bias.grad
        if weight is None or bias is None:
            raise RuntimeError("the gradient is clipped before it has been computed.")
        norms = (weight.square().sum(dim=1) + bias.square()).sqrt()
        factors = (limit / (norms + 1e-6)).clamp(max=1)
        weight.mul_(factors[:, None])
        bias.mul_(factors)


def pair_batches(shares: Sequence[Share], seed: int, batch_size: int, plan: Plan) -> Iterator[Tensor]:
    """Yield the indices of the pairs of each step, (B,): those of `ResumableLoader` with the same seed.

    Args:
        shares: Rows of each source and the number of them in an epoch.
        seed: Random seed of the order.
        batch_size: Pairs in a batch.
        plan: Length of the run; its steps of an epoch leave out a batch that the loader drops.
    """
    order = EpochSampler(shares, seed)

    def epoch(number: int) -> Sequence[Tensor]:
        order.epoch = number
        batches: Sequence[Tensor] = torch.tensor(list(order)).split(batch_size)
        return batches[: plan.epoch_steps]

    steps = itertools.chain.from_iterable(map(epoch, itertools.count()))
    yield from itertools.islice(steps, plan.total_steps)


def fit_heads(
    heads: HeadBatch,
    pairs: PairVectors,
    batches: Iterable[Tensor],
    optimizer: Callable[[nn.Module], Optimizer],
    schedule: Callable[[Optimizer], LRScheduler],
    clip: float | None = None,
) -> Tensor:
    """Train heads, in place.

    Args:
        heads: The heads.
        pairs: Training pairs.
        batches: Indices of the pairs of each step.
        optimizer: Factory of the optimiser, which works on each number by itself, as AdamW does.
        schedule: Factory of its learning-rate schedule.
        clip: Maximum norm of the gradient of a head; None for no clipping.

    Returns:
        Loss of each head at each step, (steps, H).

    Raises:
        TrainingError: The loss of a head is not finite.
    """
    update = optimizer(nn.ModuleDict({"loss": heads}))  # the name by which the head's learning rate is found
    rates = schedule(update)
    losses = []
    for step, batch in enumerate(batches, start=1):
        loss = heads(pairs.views(batch), pairs.labels[batch])
        if not torch.isfinite(loss).all():
            head = int(torch.isfinite(loss).logical_not().nonzero()[0])
            raise TrainingError(
                f"the loss of head {head + 1} of {len(loss)} is {loss[head].item()} at step {step}; a lower "
                "optim.lr or a longer optim.warmup helps most often."
            )
        update.zero_grad()
        loss.sum().backward()
        if clip is not None:
            heads.clip_gradients(clip)
        update.step()
        rates.step()
        losses.append(loss.detach())
    return torch.stack(losses)

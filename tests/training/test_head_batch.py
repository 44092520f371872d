"""Heads that train together against each of them alone."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from datasets import Dataset
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

from sts_lightning.data.loader import ResumableLoader
from sts_lightning.errors import TrainingError
from sts_lightning.losses.l1 import L1Loss
from sts_lightning.losses.siamese import SiameseRegressionLoss
from sts_lightning.losses.smooth_k2 import SmoothK2Loss
from sts_lightning.losses.translated_relu import TranslatedReLULoss
from sts_lightning.training.head_batch import HeadBatch, PairVectors, fit_heads, pair_batches
from sts_lightning.training.trainer import Plan

SIZE, PAIRS = 5, 23


def losses_of(kind: str) -> list[SiameseRegressionLoss]:
    torch.manual_seed(3)
    if kind == "l1":
        return [L1Loss(SIZE, 2.0, features="diff").double() for _ in range(3)]
    made = {"smooth_k2": SmoothK2Loss, "translated_relu": TranslatedReLULoss}[kind]
    return [made(SIZE, 2.0, k=k, x0=x0).double() for k, x0 in ((1.0, 0.1), (2.5, 0.1), (2.5, 0.4))]


def pairs_of() -> PairVectors:
    generator = torch.Generator().manual_seed(1)
    vectors = torch.randn(11, SIZE, generator=generator, dtype=torch.float64)
    rows = torch.randint(11, (2, PAIRS), generator=generator)
    return PairVectors(vectors, rows, torch.arange(PAIRS) % 3)


def alone(loss: SiameseRegressionLoss, pairs: PairVectors, batches: list[Tensor], clip: float) -> list[float]:
    """Train one head by its own loss and torch's own clipping."""
    optimizer = AdamW(loss.parameters(), lr=0.05, weight_decay=0.1)
    schedule = LambdaLR(optimizer, lambda step: 1 / (1 + step))
    course = []
    for batch in batches:
        views = torch.stack([pairs.vectors[pairs.rows[view][batch]] for view in (0, 1)])
        optimizer.zero_grad()
        value = loss(views, pairs.labels[batch])
        value.backward()
        nn.utils.clip_grad_norm_(loss.parameters(), clip)
        optimizer.step()
        schedule.step()
        course.append(value.item())
    return course


@pytest.mark.parametrize("kind", ["l1", "smooth_k2", "translated_relu"])
def test_each_head_trains_as_if_it_were_alone(kind: str) -> None:
    pairs, clip = pairs_of(), 0.7
    batches = list(pair_batches([(PAIRS, PAIRS)], 5, 4, Plan(6, 20, 20)))
    heads = HeadBatch(losses_of(kind))
    course = fit_heads(
        heads,
        pairs,
        batches,
        lambda module: AdamW(module.parameters(), lr=0.05, weight_decay=0.1),
        lambda optimizer: LambdaLR(optimizer, lambda step: 1 / (1 + step)),
        clip,
    )
    found = losses_of(kind)
    for number, loss in enumerate(losses_of(kind)):
        expected = alone(loss, pairs, batches, clip)
        torch.testing.assert_close(course[:, number].tolist(), expected, rtol=1e-9, atol=1e-12)
        heads.copy_to(number, found[number])
        torch.testing.assert_close(found[number].state_dict(), loss.state_dict(), rtol=1e-9, atol=1e-12)
        views = pairs.views(torch.arange(PAIRS))
        torch.testing.assert_close(heads.predict(*views)[number], loss.predict(*views))


@pytest.mark.parametrize(("rows", "epoch_steps"), [(23, 6), (21, 5), (24, 6), (23, 3)])
def test_batches_are_those_of_the_loader(rows: int, epoch_steps: int) -> None:
    table = Dataset.from_dict({"row": list(range(rows))})
    limit = None if epoch_steps > 3 else epoch_steps
    loader = ResumableLoader(
        table, 4, lambda examples: [example["row"] for example in examples], 7, epoch_batches=limit
    )
    assert len(loader) == epoch_steps  # of 21 rows, a last batch of one is dropped
    expected = [batch for _ in range(3) for batch in loader][: 2 * epoch_steps + 1]
    found = pair_batches([(rows, rows)], 7, 4, Plan(epoch_steps, 2 * epoch_steps + 1, 1))
    assert [batch.tolist() for batch in found] == expected


def test_a_loss_that_is_not_finite_names_its_head() -> None:
    losses = losses_of("l1")
    with torch.no_grad():
        losses[1].head.bias.fill_(float("nan"))
    make = partial(AdamW, lr=0.1)
    with pytest.raises(TrainingError, match="head 2 of 3 is nan at step 1"):
        fit_heads(
            HeadBatch(losses),
            pairs_of(),
            [torch.arange(4)],
            lambda module: make(module.parameters()),
            lambda optimizer: LambdaLR(optimizer, lambda _: 1.0),
        )

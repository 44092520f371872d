from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from sts_lightning.losses import all_losses
from sts_lightning.losses.angle import AnglELoss
from sts_lightning.losses.base import Loss
from sts_lightning.losses.contrastive import GISTLoss, InfoNCELoss
from sts_lightning.losses.cosent import CoSENTLoss
from sts_lightning.losses.matryoshka import MatryoshkaLoss
from sts_lightning.losses.mix import MixLoss
from sts_lightning.losses.pearson import PearsonLoss
from sts_lightning.losses.regression import MSELoss
from tests.support.loss_cases import DIMENSION, batch, further, make


def test_is_the_weighted_sum_over_sizes() -> None:
    loss = MatryoshkaLoss(PearsonLoss(), [6, 3, 2], [1.0, 0.5, 0.25])
    views, labels = batch(loss)
    parts = {size: PearsonLoss()(views[:, :, :size], labels) for size in (6, 3, 2)}
    torch.testing.assert_close(loss(views, labels), parts[6] + parts[3] / 2 + parts[2] / 4)
    assert loss.metrics(views, labels) == {f"first_{size}": value for size, value in parts.items()}


@pytest.mark.parametrize("stem", sorted(set(all_losses()) - {"matryoshka", "joint", "vector_distillation"}))
def test_around_every_loss_without_a_head(stem: str) -> None:
    inner = make(stem)
    if any(isinstance(part, torch.nn.Linear) for part in inner.modules()):
        with pytest.raises(ValueError, match=r"^inner is .* without a head"):
            MatryoshkaLoss(inner, [4])
        return
    loss = MatryoshkaLoss(inner, [4, DIMENSION])
    assert loss.needs == inner.needs
    views, labels = batch(loss)
    given = further(loss)
    cut = {name: value[:, :4] if name == "second" else value for name, value in given.items()}
    expected = inner(views[..., :4], labels, **cut) + inner(views, labels, **given)
    torch.testing.assert_close(loss(views, labels, **given), expected)


def test_negatives_are_cut_and_a_teacher_is_not() -> None:
    generator = torch.Generator().manual_seed(0)
    negatives = torch.randn(5, 6, generator=generator, dtype=torch.float64)
    views, _ = batch(InfoNCELoss(), 6)
    loss = MatryoshkaLoss(InfoNCELoss(), [4])
    expected = InfoNCELoss()(views[..., :4], negatives=negatives[:, :4])
    torch.testing.assert_close(loss(views, negatives=negatives), expected)
    teacher = torch.rand(6, 6, generator=generator, dtype=torch.float64)  # as wide as a vector
    guided = GISTLoss(guide="teacher", margin=0.0)
    expected = guided(views[..., :4], teacher=teacher)
    torch.testing.assert_close(MatryoshkaLoss(guided, [4])(views, teacher=teacher), expected)


def test_only_the_first_values_have_a_gradient() -> None:
    loss = MatryoshkaLoss(CoSENTLoss(), [2, 4])
    views, labels = batch(loss)
    views.requires_grad_()
    (gradient,) = torch.autograd.grad(loss(views, labels), views)
    assert gradient[..., :4].any()
    assert not gradient[..., 4:].any()


def test_metrics_of_the_inner_loss_are_those_at_the_largest_size() -> None:
    class Watching(PearsonLoss):
        def metrics(self, views: Tensor, labels: Tensor | None = None, **inputs: Any) -> dict[str, Tensor]:
            return {"width": torch.tensor(views.shape[-1])}

    loss = MatryoshkaLoss(MixLoss({"a": Watching()}, {"a": 1.0}), [2, 5, 6])
    found = loss.metrics(*batch(loss))
    assert found["width"] == 6
    assert {"first_2", "first_5", "first_6", "a"} <= set(found)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dimensions": [4]}, "^inner is empty"),
        ({"inner": PearsonLoss()}, "^dimensions must be different sizes"),
        ({"inner": PearsonLoss(), "dimensions": []}, "^dimensions must be different sizes"),
        ({"inner": PearsonLoss(), "dimensions": [4, 0]}, "^dimensions must be different sizes"),
        ({"inner": PearsonLoss(), "dimensions": [4, 4]}, "^dimensions must be different sizes"),
        ({"inner": PearsonLoss(), "dimensions": [9], "dimension": 8}, "^dimensions must be at most 8"),
        ({"inner": MSELoss(6, 5.0), "dimensions": [4]}, "^inner is MSELoss"),
        ({"inner": PearsonLoss(), "dimensions": [4], "weights": [1, 1]}, "^weights must be one for each"),
        ({"inner": PearsonLoss(), "dimensions": [4], "weights": [-1.0]}, "^weights must be finite"),
        ({"inner": PearsonLoss(), "dimensions": [4], "weights": [0.0]}, "^weights must be finite"),
    ],
)
def test_rejects(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MatryoshkaLoss(**settings)


@pytest.mark.parametrize(
    ("inner", "sizes", "message"),
    [
        (PearsonLoss(), [8], "dimensions must be at most 6"),
        (MatryoshkaLoss(PearsonLoss(), [4]), [6, 3], "dimensions must be at most 3"),
        (MixLoss({"a": AnglELoss()}, {"a": 1.0}), [6, 3], "even size, but they have 3"),
    ],
)
def test_sizes_that_cannot_be_read(inner: Loss, sizes: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MatryoshkaLoss(inner, sizes)(*batch(PearsonLoss()))

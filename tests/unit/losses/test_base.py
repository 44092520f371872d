"""Properties of every loss."""

from __future__ import annotations

import doctest
import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from sts_lightning.core.errors import ConfigError
from sts_lightning.losses import all_losses
from sts_lightning.losses.base import Loss
from sts_lightning.losses.cosent import CoSENTLoss
from sts_lightning.losses.energy import EnergyLoss
from sts_lightning.losses.infonce import InfoNCELoss
from sts_lightning.losses.regression import SiameseRegressionLoss
from sts_lightning.papers.losses.mixcse import MixCSELoss
from sts_lightning.regularizers.rank_reduction import RankReduction
from tests.support.loss_cases import DIMENSION, batch, further, make

STEMS = sorted(all_losses())

ORDERED = {
    **dict.fromkeys(("mixcse", "paper_code_mixcse"), "mixes neighbours"),
    "contrastive_tension": "pairs neighbours",
    "divided": "by order",
}
"""Losses that depend on the order of the batch."""


def smooth(stem: str) -> Loss:
    """Make the loss without clamping, whose gradient is by design not that of its value."""
    loss = make(stem)
    if isinstance(loss, SiameseRegressionLoss):
        loss.clamp = "none"
    return loss


def compute(
    loss: Loss, views: torch.Tensor, labels: torch.Tensor | None, order: torch.Tensor | None = None
) -> torch.Tensor:
    """Compute a loss with what it needs besides, in the order of its rows."""
    dtype = torch.float64 if views.dtype == torch.float64 else torch.float32
    given = further(loss, views.shape[1])
    given = {name: value.to(dtype) if name != "part" else value for name, value in given.items()}
    if order is not None:
        given |= {name: value[order][:, order] for name, value in given.items() if name == "teacher"}
        given |= {name: value[:, order] for name, value in given.items() if name == "teacher_vectors"}
    value: torch.Tensor = loss(views, labels, **given)
    return value


def check_finite(loss: Loss, views: torch.Tensor, labels: torch.Tensor | None) -> None:
    """Check the value and the gradient of the embeddings."""
    views.requires_grad_()
    value = compute(loss, views, labels)
    value.backward()
    assert value.isfinite()
    assert views.grad is not None
    assert views.grad.isfinite().all()


@pytest.mark.parametrize("stem", STEMS)
def test_gradient_of_the_embeddings(stem: str) -> None:
    loss = smooth(stem)
    views, labels = batch(loss)
    if isinstance(loss, MixCSELoss):  # its mixtures have no gradient by definition
        first, second = torch.nn.functional.normalize(views, dim=-1) if stem == "mixcse" else views
        mixtures = [loss.mixed(second)] if stem == "mixcse" else [loss.mixed(second), loss.mixed(first)]
        constants = itertools.cycle(mixtures)
        loss.mixed = lambda vectors: next(constants)  # type: ignore[method-assign]
    views.requires_grad_()
    assert torch.autograd.gradcheck(lambda v: compute(loss, v, labels), (views,), atol=1e-6)


@pytest.mark.parametrize("stem", [stem for stem in STEMS if list(make(stem).parameters())])
def test_gradient_of_the_head(stem: str) -> None:
    loss = smooth(stem)
    views, labels = batch(loss)
    names, values = zip(*loss.named_parameters(), strict=True)

    def value(*parameters: torch.Tensor) -> torch.Tensor:
        named = dict(zip(names, parameters, strict=True))
        out: torch.Tensor = torch.func.functional_call(loss, named, (views, labels), further(loss))
        return out

    assert torch.autograd.gradcheck(value, values, atol=1e-6)


@pytest.mark.parametrize("stem", [stem for stem in STEMS if stem not in ORDERED])
def test_order_of_the_batch_does_not_matter(stem: str) -> None:
    loss = make(stem)
    views, labels = batch(loss)
    order = torch.randperm(views.shape[1], generator=torch.Generator().manual_seed(1))
    permuted = compute(loss, views[:, order], None if labels is None else labels[order], order)
    torch.testing.assert_close(compute(loss, views, labels), permuted)


@pytest.mark.parametrize("stem", STEMS)
@pytest.mark.parametrize("size", [2, 3])
def test_small_batches_have_finite_loss_and_gradient(stem: str, size: int) -> None:
    loss = make(stem)
    check_finite(loss, *batch(loss, size))


@pytest.mark.parametrize("stem", STEMS)
def test_one_row(stem: str) -> None:
    loss = make(stem)
    views, labels = batch(loss, 1)
    views = views[: min(loss.needs.views)]
    if stem in ("decoupled", "energy", "hardness"):
        with pytest.raises(ValueError, match="at least two rows"):
            compute(loss, views, labels)
    else:
        assert compute(loss, views, labels).isfinite()


@pytest.mark.parametrize("stem", STEMS)
def test_equal_embeddings_and_equal_labels_have_a_finite_gradient(stem: str) -> None:
    loss = make(stem)
    views, labels = batch(loss)
    for equal_views, equal_labels in [(True, False), (False, True), (True, True)]:
        v = torch.ones_like(views) if equal_views else views.clone()
        y = torch.ones_like(labels) if equal_labels and labels is not None else labels
        check_finite(loss, v, y)


@pytest.mark.parametrize("stem", [stem for stem in STEMS if make(stem).needs.labels != ("none",)])
def test_the_losses_that_compare_labels_are_those_without_gradient_on_equal_ones(stem: str) -> None:
    loss = make(stem)
    views, labels = batch(loss)
    views.requires_grad_()
    equal = None if labels is None else torch.full_like(labels, 5.0 if labels.is_floating_point() else 1)
    compute(loss, views, equal).backward()
    assert views.grad is not None
    assert (views.grad.abs().max().item() < 1e-12) == loss.needs.different_labels


@pytest.mark.parametrize("equal_labels", [False, True])
@pytest.mark.parametrize("stem", STEMS)
def test_a_nan_is_propagated(stem: str, equal_labels: bool) -> None:
    loss = make(stem)
    views, labels = batch(loss)
    if equal_labels and labels is not None:
        labels = torch.ones_like(labels)
    views[-1, 2, 3] = math.nan
    assert compute(loss, views, labels).isnan()


@pytest.mark.parametrize("stem", STEMS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_upcast(stem: str, dtype: torch.dtype) -> None:
    loss = make(stem).float()
    views, labels = batch(loss)
    half = views.to(dtype)
    value = compute(loss, half, labels)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, compute(loss, half.float(), labels))


@pytest.mark.parametrize("stem", [stem for stem in STEMS if "none" not in make(stem).needs.labels])
def test_absent_labels_are_an_error(stem: str) -> None:
    with pytest.raises(ValueError, match="needs labels"):
        make(stem)(torch.randn(2, 4, DIMENSION, dtype=torch.float64), **further(make(stem)))


@pytest.mark.parametrize("stem", STEMS)
def test_the_example_of_the_docstring_runs(stem: str) -> None:
    classes = all_losses()
    names = {kind.__name__: kind for kind in classes.values()} | {"torch": torch}
    (example,) = doctest.DocTestFinder(recurse=False).find(classes[stem], stem, globs=names)
    if not example.examples:
        pytest.skip("has no example")
    shown = example.globs
    assert doctest.DocTestRunner().run(example, clear_globs=False).failed == 0
    assert shown["value"].shape == ()
    assert shown["value"].isfinite()


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda: InfoNCELoss(temperature=float("nan")), "temperature"),
        (lambda: InfoNCELoss(hard_negative_weight=float("nan")), "hard_negative_weight"),
        (lambda: CoSENTLoss(scale=float("inf")), "scale"),
        (lambda: EnergyLoss(margin=float("nan")), "margin"),
        (lambda: RankReduction(coefficient=float("nan")), "coefficient"),
    ],
)
def test_losses_without_a_configuration(build: Callable[[], Any], name: str) -> None:
    with pytest.raises((ConfigError, ValueError), match=name):
        build()


@pytest.mark.parametrize("stem", STEMS)
def test_length_of_embeddings_matters_to_heads_and_dot_products_alone(stem: str) -> None:
    loss = make(stem)
    views, labels = batch(loss)
    same = torch.allclose(compute(loss, views, labels), compute(loss, 3 * views, labels))
    has_head = any(isinstance(part, torch.nn.Linear) for part in loss.modules())
    assert same == (not has_head and stem != "contrastive_tension")

"""Losses of a user's own that do not keep to the base class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from sts_lightning.core.errors import ConfigError
from sts_lightning.losses import all_losses
from sts_lightning.losses.base import Loss, Needs, check_declared, check_scalar
from sts_lightning.testing.toy import toy
from sts_lightning.workflows.preflight import check_fit
from tests.support.data_modules import data_module


class Own(Loss):
    """A loss that is right."""

    needs = Needs(views=(2,), labels=("score",))

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        return views.square().mean()


def variant(**changes: Any) -> Loss:
    kind: Any = type("Variant", (Own,), changes)
    own: Loss = kind()
    return own


def test_our_own_declare_what_they_accept() -> None:
    for kind in all_losses().values():
        if kind.needs.views:  # those around other losses take these from them
            check_declared(object.__new__(kind))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"views": 2}, r"Variant must declare the numbers of views .* Needs\(views=\(2,\), .*; it has 2"),
        ({"needs": Needs()}, r"it has \(\)"),
        ({"labels": "score"}, r"some of 'none', 'score', 'class', as in .*; it has 'score'"),
        ({"labels": ("scores",)}, r"it has \('scores',\)"),
    ],
)
def test_what_a_loss_must_declare(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_fit(variant(**changes), data_module(toy))


def test_a_loss_of_0_3_declares_the_same_by_attributes() -> None:
    class Earlier(Loss):
        views = (2,)
        labels: tuple[str, ...] = ("score", "class")
        takes = ("sentence_ids",)
        compares = True
        least_batch = 4

    class Later(Earlier):
        labels = ("score",)

    expected = Needs((2,), ("score", "class"), False, ("sentence_ids",), (), 4, 1, True)
    assert Earlier.needs == expected
    assert Later.needs == replace(expected, labels=("score",))
    assert Loss.needs == Needs()


PAIRS = Needs((2,), ("score",), False, ("sentence_ids",), (), 1, 1, False)
MORE = Needs((2, 3), ("none", "score"), True, ("negatives",), ("teacher",), 2, 3, True)


def test_the_needs_of_losses_on_one_batch() -> None:
    expected = Needs((2,), ("score",), False, ("sentence_ids", "negatives"), ("teacher",), 2, 3, False)
    assert Needs.both([PAIRS, MORE]) == expected
    assert not Needs.both([PAIRS, Needs((3,), ("class",))]).views
    assert not Needs.both([PAIRS, Needs((3,), ("class",))]).labels


def test_the_needs_of_losses_of_which_one_reads_a_batch() -> None:
    inputs = ("sentence_ids", "negatives"), ("teacher",)
    assert Needs.any([PAIRS, MORE]) == Needs((2, 3), ("score", "none"), True, *inputs, 1, 1, False)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1.0, "Own gives a float, not a tensor with one number"),
        (torch.ones(8), r"Own gives a tensor of shape \(8,\), not one number; take its mean"),
    ],
)
def test_a_value_that_is_no_number(value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_scalar(value, Own())


def test_a_number_without_gradient() -> None:
    with pytest.raises(ConfigError, match="Own gives a number without a gradient"):
        check_scalar(torch.ones(()), Own(), trains=True)
    check_scalar(torch.ones((), requires_grad=True), Own(), trains=True)


class ByPair(Own):
    """Forgets to take the mean."""

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        return views.square().mean(dim=(0, 2))

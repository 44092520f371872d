from __future__ import annotations

import pytest
import torch

from sts_lightning.losses.contrastive import InfoNCELoss
from sts_lightning.losses.cosent import CoSENTLoss
from sts_lightning.losses.cosine_mse import CosineMSELoss
from sts_lightning.losses.mix import MixLoss
from sts_lightning.losses.pearson import PearsonLoss
from sts_lightning.losses.regression import SmoothK2Loss, TranslatedReLULoss
from tests.support.loss_cases import batch


def test_is_the_weighted_sum() -> None:
    loss = MixLoss({"a": PearsonLoss(), "b": CoSENTLoss()}, {"a": 2.0, "b": 0.1})
    views, labels = batch(loss)
    expected = 2 * PearsonLoss()(views, labels) + 0.1 * CoSENTLoss()(views, labels)
    torch.testing.assert_close(loss(views, labels), expected)
    assert loss.metrics(views, labels)["a"] == PearsonLoss()(views, labels)


def test_reads_what_all_terms_read_and_has_their_heads() -> None:
    loss = MixLoss({"a": PearsonLoss(), "b": SmoothK2Loss(4, 5.0)}, {"a": 1.0, "b": 1.0})
    assert loss.needs.labels == ("score",)
    assert {name for name, _ in loss.named_parameters()} == {"terms.b.head.weight", "terms.b.head.bias"}
    assert set(loss.metrics(torch.randn(2, 5, 4), torch.rand(5))) == {"a", "b", "accuracy"}


@pytest.mark.parametrize(
    ("terms", "weights", "message"),
    [
        ({}, {}, "terms is empty"),
        ({"a": PearsonLoss()}, {"b": 1.0}, "must have the names of terms: a; its names are b"),
        (
            {"a": PearsonLoss(), "b": InfoNCELoss()},
            {"a": 1.0, "b": 1.0},
            "cannot read the same batches: a takes 2 views and a similarity score; b takes 2 or more views",
        ),
    ],
)
def test_rejects(terms: dict[str, PearsonLoss], weights: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MixLoss(terms, weights)


@pytest.mark.parametrize("name", ["loss", "regularizer", "type", "forward"])
def test_names_that_mean_something_else(name: str) -> None:
    with pytest.raises(ValueError, match=f"other names than {name}"):
        MixLoss({name: PearsonLoss()}, {name: 1.0})


def test_what_two_terms_observe_has_the_name_of_the_term() -> None:
    terms = {"a": SmoothK2Loss(dimension=4, top_label=2), "b": TranslatedReLULoss(dimension=4, top_label=2)}
    loss = MixLoss(terms, {"a": 1.0, "b": 1.0})
    found = loss.metrics(torch.randn(2, 6, 4), torch.arange(6) % 3)
    assert set(found) == {"a", "b", "a/accuracy", "b/accuracy"}


def test_a_mix_compares_labels_if_all_terms_that_count_do() -> None:
    terms = {"r": PearsonLoss(), "mse": CosineMSELoss()}
    assert not MixLoss(terms, {"r": 1.0, "mse": 0.5}).needs.different_labels
    assert MixLoss(terms, {"r": 1.0, "mse": 0.0}).needs.different_labels

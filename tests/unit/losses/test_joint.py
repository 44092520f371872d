from __future__ import annotations

import pytest
import torch

from sts_lightning.losses.contrastive import InfoNCELoss
from sts_lightning.losses.joint import JointLoss
from sts_lightning.losses.pearson import PearsonLoss
from sts_lightning.losses.regression import SmoothK2Loss
from tests.support.loss_cases import batch


def test_a_part_has_its_own_loss() -> None:
    loss = JointLoss({"nli": InfoNCELoss(temperature=0.1), "sts": PearsonLoss()})
    triplets, _ = batch(InfoNCELoss())
    pairs, scores = batch(PearsonLoss())
    ids = torch.arange(21).view(3, 7)
    expected = InfoNCELoss(temperature=0.1)(triplets, sentence_ids=ids)
    torch.testing.assert_close(loss(triplets, part="nli", sentence_ids=ids), expected)
    assert loss.metrics(triplets, part="nli", sentence_ids=ids) == {"nli": expected}
    expected = PearsonLoss()(pairs, scores)
    torch.testing.assert_close(loss(pairs, scores, part="sts", sentence_ids=ids[:2]), expected)
    assert loss.metrics(pairs, scores, part="sts", sentence_ids=ids[:2]) == {"sts": expected}


def test_metrics_of_a_part_follow_its_name() -> None:
    loss = JointLoss({"a": PearsonLoss(), "b": SmoothK2Loss(4, 5.0)})
    pairs = torch.randn(2, 7, 4)
    assert loss.metrics(pairs, torch.arange(7) % 3 * 2.5, part="b").keys() == {"b", "b/accuracy"}
    assert sum(1 for _ in loss.parameters()) == 2  # the head trains


def test_it_accepts_what_its_parts_accept() -> None:
    loss = JointLoss({"nli": InfoNCELoss(), "sts": PearsonLoss()})
    assert {2, 3} <= set(loss.needs.views)
    assert set(loss.needs.labels) == {"none", "score"}
    assert "part" in loss.needs.inputs
    assert "sentence_ids" in loss.needs.inputs


@pytest.mark.parametrize(
    ("parts", "message"),
    [(None, "parts is empty"), ({"loss": PearsonLoss()}, "parts must have other names than loss")],
)
def test_parts_are_checked(parts: dict[str, PearsonLoss] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        JointLoss(parts)


@pytest.mark.parametrize("part", ["", "nil"])
def test_an_unknown_part_is_an_error(part: str) -> None:
    with pytest.raises(ValueError, match="needs part, one of nli"):
        JointLoss({"nli": InfoNCELoss()})(torch.randn(2, 4, 8), part=part)

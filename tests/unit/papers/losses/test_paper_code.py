from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sts_lightning.losses.pearson import PearsonLoss
from sts_lightning.papers.losses.paper_code import (
    PaperCodeL1Loss,
    PaperCodeMixCSELoss,
    PaperCodePearsonLoss,
    PaperCodeRankCSELoss,
)
from sts_lightning.papers.losses.rankcse import RankCSELoss
from tests.unit.losses.test_pearson import batch
from tests.unit.losses.test_regression import gradient, head_of
from tests.unit.papers.losses.test_rankcse import cos, softmax


def test_pearson_has_unbiased_variances() -> None:
    views, labels = batch()
    x = torch.nn.functional.cosine_similarity(views[0], views[1])
    papers = 1 - ((x - x.mean()) * (labels - labels.mean())).mean() / (x.var() * labels.var()).sqrt()
    assert PaperCodePearsonLoss()(views, labels).item() == pytest.approx(papers.item(), abs=1e-6)
    assert PaperCodePearsonLoss()(views, labels) != PearsonLoss()(views, labels)


def test_a_clamped_prediction_has_no_gradient() -> None:
    loss, views = head_of([-2.0, 2.0], clamp="left", kind=PaperCodeL1Loss)
    assert gradient(loss, views, [3.0, 3.0]) == pytest.approx([0.0, -0.5])


def test_labels_are_floored() -> None:
    loss, views = head_of([4.0, 2.0], kind=PaperCodeL1Loss)
    assert loss(views, torch.tensor([4.8, 2.0])).item() == pytest.approx(0.0)
    loss, views = head_of([4.0, 2.0])
    assert loss(views, torch.tensor([4.8, 2.0])).item() == pytest.approx(0.4)


def test_mixcse_equals_slow_reference() -> None:
    z = np.random.default_rng(1).normal(size=(2, 5, 4))
    mixed = [0.2 * z[1, j] + 0.8 * z[1, (j + 1) % 5] for j in range(5)]
    anchors = [0.2 * z[0, j] + 0.8 * z[0, (j + 1) % 5] for j in range(5)]
    total = 0.0
    for i in range(5):
        logits = [cos(z[0, i], z[1, j]) / 0.05 for j in range(5)]
        logits += [0.0 if j == (i - 1) % 5 else cos(z[0, i], mixed[j]) / 0.05 for j in range(5)]
        logits += [0.0 if j == (i + 1) % 5 else cos(anchors[i], z[1, j]) / 0.05 for j in range(5)]
        total += math.log(sum(map(math.exp, logits))) - logits[i]
    assert PaperCodeMixCSELoss()(torch.from_numpy(z)).item() == pytest.approx(total / 5)


def slow_rankcse(z: np.ndarray, teacher: np.ndarray) -> float:
    """The re-implementation's terms, one number after the other."""
    size, total = len(z[0]), 0.0
    for i in range(size):
        lists = [[cos(z[k, i], z[1 - k, j]) / 0.05 for j in range(size)] for k in (0, 1)]
        total -= math.log(softmax(lists[0])[i])
        for p in (max(part, 1e-7) for row in lists for part in softmax(row)):
            total += 0.5 * p * (math.log(p) - 1e-7)
        student = [score - max(lists[0]) for score in lists[0]]
        order = sorted(range(size), key=lambda j: -float(teacher[i, j]))
        for k in range(size):
            total += math.log(sum(math.exp(student[j]) for j in order[k:]) + 1e-7) - student[order[k]]
    return total / size


def test_rankcse_equals_slow_reference() -> None:
    rng = np.random.default_rng(1)
    z, teacher = rng.normal(size=(2, 6, 4)), rng.uniform(-1, 1, size=(6, 6))
    z[1] = z[0] + 0.1 * z[1]  # scores so far apart that 1e-7 matters
    value = PaperCodeRankCSELoss()(torch.from_numpy(z), teacher=torch.from_numpy(teacher))
    assert value.item() == pytest.approx(slow_rankcse(z, teacher))
    assert RankCSELoss()(torch.from_numpy(z), teacher=torch.from_numpy(teacher)) < value / 2


def test_nothing_is_masked() -> None:
    views = torch.from_numpy(np.random.default_rng(4).normal(size=(2, 6, 5)))
    ids = torch.zeros(2, 6, dtype=torch.int64)
    loss = PaperCodeMixCSELoss()
    torch.testing.assert_close(loss(views, sentence_ids=ids), loss(views))
    assert "sentence_ids" not in (*loss.needs.inputs, *PaperCodeRankCSELoss().needs.inputs)

"""Candidates with the text of the positive or of the anchor are no negatives, in every contrastive loss."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from sts_lightning.core.choices import EMPTY
from sts_lightning.losses import all_losses
from sts_lightning.losses.base import Loss
from sts_lightning.losses.contrastive import (
    DecoupledLoss,
    EnergyLoss,
    GISTLoss,
    HardnessLoss,
    InfoNCELoss,
    SigmoidLoss,
)
from sts_lightning.losses.divided import DividedLoss
from sts_lightning.losses.matryoshka import MatryoshkaLoss
from sts_lightning.losses.mix import MixLoss
from sts_lightning.papers.losses.contrastive_tension import ContrastiveTensionLoss
from sts_lightning.papers.losses.infocse import InfoCSELoss
from sts_lightning.papers.losses.mixcse import MixCSELoss
from sts_lightning.papers.losses.rankcse import RankCSELoss

TAU = 0.5

Row = Callable[[float, list[float]], float]
"""Loss of a row from the cosine of its positive and those of its negatives."""


def softmax(p: float, negatives: list[float]) -> float:
    return -p / TAU + math.log(sum(math.exp(c / TAU) for c in [p, *negatives]))


def decoupled(p: float, negatives: list[float]) -> float:
    return -p / TAU + (math.log(sum(math.exp(c / TAU) for c in negatives)) if negatives else 0.0)


def hardness(p: float, negatives: list[float]) -> float:
    if not negatives:
        return 0.0
    weights = np.exp([2 * c / TAU for c in negatives])
    mean = float(weights @ np.exp([c / TAU for c in negatives]) / weights.sum())
    least = max(math.exp(-1 / TAU), (mean - 0.1 * math.exp(p / TAU)) / 0.9)
    return -math.log(math.exp(p / TAU) / (math.exp(p / TAU) + len(negatives) * least))


def sigmoid(p: float, negatives: list[float]) -> float:
    judged = [3 * p - 1, *(1 - 3 * c for c in negatives)]
    return sum(math.log(1 + math.exp(-value)) for value in judged)


def energy(p: float, negatives: list[float]) -> float:
    return max(0.0, 0.3 + max(negatives) - p) if negatives else 0.0


LOSSES: dict[str, tuple[Loss, Row]] = {
    "infonce": (InfoNCELoss(TAU), softmax),
    "gist": (GISTLoss(TAU, margin=1.99), softmax),
    "decoupled": (DecoupledLoss(TAU), decoupled),
    "hardness": (HardnessLoss(TAU, hardness=2.0, prior=0.1), hardness),
    "sigmoid": (SigmoidLoss(scale=3.0, bias=-1.0).double(), sigmoid),
    "energy": (EnergyLoss(0.3), energy),
    "infocse": (InfoCSELoss(TAU, masked_lm_weight=0.0), softmax),
    "rankcse": (RankCSELoss(TAU, consistency_weight=0.0, distillation_weight=0.0), softmax),
    "mixcse": (MixCSELoss(TAU), softmax),
}
TWO_VIEWS = ("rankcse", "mixcse")


def unit(vectors: np.ndarray) -> np.ndarray:
    found: np.ndarray = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return found


def slow(stem: str, views: np.ndarray, ids: np.ndarray, mask: bool = True) -> float:
    """The mean over rows, negatives found one by one."""
    views = unit(views)
    count, size, _ = views.shape
    total = 0.0
    for i in range(size):

        def is_negative(v: int, j: int, i: int = i) -> bool:
            left_out = (ids[0, i], ids[1, i], *ids[count:, i], EMPTY)
            return (v, j) != (1, i) and not (mask and ids[v, j] in left_out)

        negatives = [
            float(views[0, i] @ views[v, j])
            for v in range(1, count)
            for j in range(size)
            if is_negative(v, j)
        ]
        if stem == "mixcse":
            for j in range(size):
                other = (j + 1) % size
                if other != i and is_negative(1, other):
                    mixed = unit(0.2 * views[1, j] + 0.8 * views[1, other])
                    negatives.append(float(views[0, i] @ mixed))
        total += LOSSES[stem][1](float(views[0, i] @ views[1, i]), negatives)
    return total / size


def value(loss: Loss, views: Tensor, ids: Tensor | None) -> Tensor:
    extra = {"masked_lm": torch.tensor(1.0)} if "masked_lm" in loss.needs.required_inputs else {}
    found: Tensor = loss(views, sentence_ids=ids, **extra)
    return found


@pytest.mark.parametrize(
    ("stem", "num_views"), [(s, 2) for s in LOSSES] + [(s, 4) for s in LOSSES if s not in TWO_VIEWS]
)
def test_equals_a_slow_reference(stem: str, num_views: int) -> None:
    loss, _ = LOSSES[stem]
    rng = np.random.default_rng(0)
    views = rng.normal(size=(num_views, 7, 5))
    tensor = torch.from_numpy(views).requires_grad_()
    for ids in (
        rng.integers(9, size=(num_views, 7)),
        np.arange(7 * num_views).reshape(num_views, 7),  # nothing repeated
        np.zeros((num_views, 7), dtype=np.int64),  # nothing else
        rng.integers(20, size=(num_views + 3, 7)),  # with three further positives
    ):
        numbers = torch.from_numpy(ids)
        assert value(loss, tensor, numbers).item() == pytest.approx(slow(stem, views, ids))
        if stem == "mixcse":  # whose mixtures have no gradient by design
            assert torch.autograd.grad(value(loss, tensor, numbers), tensor)[0].isfinite().all()
        else:
            assert torch.autograd.gradcheck(lambda v, n=numbers: value(loss, v, n), (tensor,))
    ids = rng.integers(9, size=(num_views, 7))
    assert value(loss, tensor, None).item() == pytest.approx(slow(stem, views, ids, mask=False))


@pytest.mark.parametrize("stem", [stem for stem in LOSSES if stem not in TWO_VIEWS])
def test_a_perfect_encoder_of_few_answers(stem: str) -> None:
    """32 questions with four answers, each question as close to its answer as can be."""
    answers = torch.arange(32) % 4
    vectors = torch.eye(4, dtype=torch.float64)[answers]
    ids = torch.stack([4 + torch.arange(32), answers])
    views = torch.stack([vectors, vectors])
    if stem in ("infonce", "gist"):
        loss = type(LOSSES[stem][0])()
        assert value(loss, views, ids).item() == pytest.approx(math.log1p(24 * math.exp(-20)))
        assert value(loss, views, None).item() == pytest.approx(math.log(8 + 24 * math.exp(-20)))
    assert value(LOSSES[stem][0], views, ids) < value(LOSSES[stem][0], views, None)


def test_a_perfect_encoder_of_few_questions() -> None:
    """8 questions with four answers each, every answer with the vector of its question."""
    questions = torch.arange(32) // 4
    vectors = torch.eye(8, dtype=torch.float64)[questions]
    views = torch.stack([vectors, vectors])
    answers = 8 + torch.arange(32).view(8, 4)
    ids = torch.cat([torch.stack([questions, answers.flatten()]), answers[questions].T])
    # One answer a question: 28 negatives with a cosine of 0.
    expected = {
        "infonce": math.log1p(28 * math.exp(-20)),
        "gist": math.log1p(28 * math.exp(-20)),
        "decoupled": math.log(28) - 20,
        "hardness": math.log1p(28 * math.exp(-20)),
        "energy": 0.0,
    }
    for stem, of_one_answer in expected.items():
        loss = type(LOSSES[stem][0])()
        assert value(loss, views, ids).item() == pytest.approx(of_one_answer, abs=1e-12), stem
        assert value(loss, views, ids[:2]) > of_one_answer + 0.1, stem
    two_sided = InfoNCELoss(symmetric=True, same_side=True)
    assert value(two_sided, views, ids).item() == pytest.approx(math.log(2), abs=1e-6)  # its pair twice


def differences(function: Callable[[np.ndarray], float], point: np.ndarray) -> np.ndarray:
    """The gradient by central differences."""
    found = np.zeros_like(point)
    for index in np.ndindex(point.shape):
        step = np.zeros_like(point)
        step[index] = 1e-6
        found[index] = (function(point + step) - function(point - step)) / 2e-6
    return found


def loss_of(stem: str) -> Callable[[np.ndarray, np.ndarray], float]:
    return lambda views, ids: slow(stem, views, ids)


def two_sided(views: np.ndarray, ids: np.ndarray) -> float:
    """InfoNCE with all blocks and w = 0.7, of texts that occur once, but for the empty places."""
    views, total, size = unit(views), 0.0, views.shape[1]
    hard = [(v, j) for v in range(2, len(views)) for j in range(size) if ids[v, j] != EMPTY]
    for i in range(size):
        anchor, answer = views[0, i], views[1, i]
        others = [j for j in range(size) if j != i]
        logits = [anchor @ answer / TAU]
        logits += [anchor @ views[1, j] / TAU for j in others]
        logits += [anchor @ views[v, j] / TAU + 0.7 * (i == j) for v, j in hard]
        logits += [answer @ views[v, j] / TAU for v, j in hard]  # positive_negatives
        logits += [answer @ views[0, j] / TAU for j in range(size)]  # symmetric
        logits += [anchor @ views[0, j] / TAU for j in others]  # same_side
        logits += [answer @ views[1, j] / TAU for j in others]
        logits += [answer @ views[v, j] / TAU for v, j in hard if j != i]
        total += math.log(sum(math.exp(logit) for logit in logits)) - logits[0]
    return float(total / size)


PARTLY_EMPTY = np.arange(4 * 6).reshape(4, 6)
PARTLY_EMPTY[2:, 1], PARTLY_EMPTY[3, 4] = EMPTY, EMPTY
HARDER = InfoNCELoss(TAU, 0.7, positive_negatives=True, symmetric=True, same_side=True)
WITH_EMPTY: dict[str, tuple[Loss, Callable[[np.ndarray, np.ndarray], float]]] = {
    **{stem: (loss, loss_of(stem)) for stem, (loss, _) in LOSSES.items() if stem not in TWO_VIEWS},
    "infonce_all_blocks": (HARDER, two_sided),
    "mix": (
        MixLoss({"a": InfoNCELoss(TAU), "b": EnergyLoss(0.3)}, {"a": 1.0, "b": 0.5}),
        lambda views, ids: slow("infonce", views, ids) + 0.5 * slow("energy", views, ids),
    ),
    "matryoshka": (
        MatryoshkaLoss(InfoNCELoss(TAU), [5, 3]),
        lambda views, ids: slow("infonce", views, ids) + slow("infonce", views[..., :3], ids),
    ),
    **{
        f"divided_{drop}": (
            DividedLoss(InfoNCELoss(TAU), 2, drop_duplicates=drop),
            lambda views, ids: (
                sum(slow("infonce", views[:, rows], ids[:, rows]) for rows in (slice(3), slice(3, 6))) / 2
            ),
        )
        for drop in (False, True)
    },
}


@pytest.mark.parametrize("name", WITH_EMPTY)
@pytest.mark.parametrize("whole", [False, True])
def test_empty_places_count_for_nothing(name: str, whole: bool) -> None:
    """Loss and gradient are those without them: one row has no hard negative, one has one of two."""
    loss, reference = WITH_EMPTY[name]
    ids = PARTLY_EMPTY.copy()
    if whole:
        ids[2:] = EMPTY
    views = np.random.default_rng(5).normal(size=(4, 6, 5))
    tensor = torch.from_numpy(views).requires_grad_()
    found = value(loss, tensor, torch.from_numpy(ids))
    assert found.item() == pytest.approx(reference(views, ids))
    [gradient] = torch.autograd.grad(found, tensor)
    expected = differences(lambda point: reference(point, ids), views)
    np.testing.assert_allclose(gradient.numpy(), expected, atol=1e-7)
    assert (gradient.numpy()[ids == EMPTY] == 0).all()


def test_the_masked_share_of_a_guide_has_no_empty_places() -> None:
    views = torch.eye(4, dtype=torch.float64).expand(3, 4, 4).clone()
    views[1, :2] = views[0, [1, 0]]  # of rows 0 and 1 each has the other's positive
    ids = torch.arange(12).view(3, 4)
    ids[2, 1:] = EMPTY
    loss = GISTLoss(margin=0.5)
    # Of rows 0 to 3: 3 positives of others each, and the one hard negative for rows 1 to 3.
    cosines = (views[0] @ torch.cat([views[1], views[2, :1]]).T).numpy()
    masked = sum(
        cosines[i, j] > cosines[i, i] + 0.5 for i in range(4) for j in range(5) if j != i and (i, j) != (0, 4)
    )
    assert loss.metrics(views, sentence_ids=ids)["masked"].item() == pytest.approx(masked / 15)
    assert masked == 2


def test_positives_that_meet_hard_negatives() -> None:
    rng = np.random.default_rng(3)
    views, ids = unit(rng.normal(size=(3, 6, 5))), rng.integers(8, size=(3, 6))
    total = 0.0
    for i in range(6):
        own = {ids[0, i], ids[1, i]}
        logits = [views[0, i] @ views[1, i]]
        logits += [
            views[0, i] @ views[v, j]
            for v in (1, 2)
            for j in range(6)
            if (v, j) != (1, i) and ids[v, j] not in own
        ]
        logits += [views[1, i] @ views[2, j] for j in range(6) if ids[2, j] not in own]
        total += math.log(sum(math.exp(c / TAU) for c in logits)) - logits[0] / TAU
    loss = InfoNCELoss(TAU, positive_negatives=True)
    found = loss(torch.from_numpy(views), sentence_ids=torch.from_numpy(ids))
    assert found.item() == pytest.approx(total / 6)


def test_contrastive_tension_has_no_negative_pair_of_one_sentence() -> None:
    rng = np.random.default_rng(1)
    first, second = torch.from_numpy(rng.normal(size=(2, 8, 3)))
    ids = torch.tensor([[0, 1, 1, 2, 3, 4, 5, 4]])
    # The first of each four is positive; a negative is paired with the next one, the last with the first.
    partner = {0: 0, 4: 4, 1: 2, 2: 3, 3: 5, 5: 6, 6: 7, 7: 1}
    total = 0.0
    for i, j in partner.items():
        sign = 1 if i == j else -1
        if i == j or ids[0, i] != ids[0, j]:
            total += math.log(1 + math.exp(-sign * float(first[i] @ second[j])))
    loss = ContrastiveTensionLoss(group=4)
    assert loss(first[None], second=second, sentence_ids=ids).item() == pytest.approx(total / 8)
    assert loss(first[None], second=second) > total / 8


def test_losses_around_others_hand_the_numbers_on() -> None:
    rng = np.random.default_rng(2)
    views, ids = torch.from_numpy(rng.normal(size=(2, 8, 6))), torch.from_numpy(rng.integers(5, size=(2, 8)))
    one, two = InfoNCELoss(TAU), EnergyLoss(0.3)
    terms = {"a": one(views, sentence_ids=ids), "b": two(views, sentence_ids=ids)}
    mixed = MixLoss({"a": one, "b": two}, {"a": 1.0, "b": 0.5})
    torch.testing.assert_close(mixed(views, sentence_ids=ids), terms["a"] + 0.5 * terms["b"])
    nested = MatryoshkaLoss(one, [6, 3])
    expected = terms["a"] + one(views[..., :3], sentence_ids=ids)
    torch.testing.assert_close(nested(views, sentence_ids=ids), expected)
    halves = [one(views[:, rows], sentence_ids=ids[:, rows]) for rows in (slice(4), slice(4, 8))]
    torch.testing.assert_close(DividedLoss(one, 2)(views, sentence_ids=ids), sum(halves) / 2)
    for around in (mixed, nested, DividedLoss(one, 2)):
        assert "sentence_ids" in around.needs.inputs
        assert (around.needs.views, around.needs.more_views) == ((2, 3), True)


def test_every_loss_that_masks_takes_the_numbers() -> None:
    found = {stem for stem, kind in all_losses().items() if "sentence_ids" in kind.needs.inputs}
    assert found == set(LOSSES) | {"bixse", "contrastive_tension"}

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from sts_lightning.losses.infonce import InfoNCELoss
from sts_lightning.papers.losses.rankcse import Distillation, RankCSELoss


def cos(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def softmax(values: list[float]) -> list[float]:
    total = sum(math.exp(value - max(values)) for value in values)
    return [math.exp(value - max(values)) / total for value in values]


def kl(p: list[float], q: list[float]) -> float:
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def slow_js(p: list[float], q: list[float]) -> float:
    middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    return (kl(p, middle) + kl(q, middle)) / 2


def slow_list_mle(student: list[float], teacher: list[float]) -> float:
    order = sorted(range(len(student)), key=lambda j: -teacher[j])
    terms = [
        math.log(sum(math.exp(student[j]) for j in order[k:])) - student[order[k]] for k in range(len(order))
    ]
    return sum(terms) / len(terms)


def slow(z: np.ndarray, teacher: np.ndarray, distillation: str, positive_in_lists: bool) -> float:
    size, total = len(z[0]), 0.0
    for i in range(size):
        own = [cos(z[0, i], z[1, j]) / 0.05 for j in range(size)]
        other = [cos(z[1, i], z[0, j]) / 0.05 for j in range(size)]
        total -= math.log(softmax(own)[i])
        total += 0.7 * slow_js(softmax(own), softmax(other))
        kept = [j for j in range(size) if positive_in_lists or j != i]
        student = [cos(z[0, i], z[1, j]) / 0.1 for j in kept]
        wanted = [float(teacher[i, j]) for j in kept]
        if distillation == "listnet":
            target = softmax([t / 0.04 for t in wanted])
            total -= 0.3 * sum(t * math.log(s) for t, s in zip(target, softmax(student), strict=True))
        else:
            total += 0.3 * slow_list_mle(student, wanted)
    return total / size


@pytest.mark.parametrize("positive_in_lists", [True, False])
@pytest.mark.parametrize("distillation", ["listnet", "listmle"])
def test_equals_slow_reference(distillation: Distillation, positive_in_lists: bool) -> None:
    rng = np.random.default_rng(0)
    z, teacher = rng.normal(size=(2, 6, 4)), rng.uniform(-1, 1, size=(6, 6))
    loss = RankCSELoss(
        consistency_weight=0.7,
        distillation=distillation,
        distillation_weight=0.3,
        student_temperature=0.1,
        **({"teacher_temperature": 0.04} if distillation == "listnet" else {}),
        positive_in_lists=positive_in_lists,
    )
    value = loss(torch.from_numpy(z), teacher=torch.from_numpy(teacher))
    assert value.item() == pytest.approx(slow(z, teacher, distillation, positive_in_lists))


def test_without_its_terms_it_is_infonce() -> None:
    views = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
    loss = RankCSELoss(consistency_weight=0, distillation_weight=0)
    assert loss.needs.required_inputs == ()
    torch.testing.assert_close(loss(views), InfoNCELoss()(views))
    assert set(loss.observed) == {"infonce", "consistency"}


def test_divergence_is_between_zero_and_log_two() -> None:
    logits = torch.tensor([[1.0, 2.0, 3.0], [1000.0, 0.0, 0.0]])
    torch.testing.assert_close(RankCSELoss().divergence(logits, logits), torch.zeros(2))
    far = RankCSELoss().divergence(torch.tensor([[1000.0, 0.0]]), torch.tensor([[0.0, 1000.0]]))
    torch.testing.assert_close(far, torch.tensor([math.log(2)]))


def test_list_mle_is_the_probability_of_an_order() -> None:
    """The probabilities of all orders of three sum to 1."""
    scores = torch.randn(1, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    total = 0.0
    for order in itertools.permutations([3.0, 2.0, 1.0]):
        mean = RankCSELoss().list_mle(scores, torch.tensor([order], dtype=torch.float64))
        total += math.exp(-3 * mean.item())
    assert total == pytest.approx(1.0)


def test_the_teachers_own_order_is_the_best() -> None:
    teacher = torch.tensor([[1.0, 0.8, 0.1], [0.8, 1.0, 0.3], [0.1, 0.3, 1.0]])
    best = RankCSELoss().list_mle(10 * teacher, teacher)
    assert best < RankCSELoss().list_mle(10 * teacher[:, [1, 0, 2]], teacher)


def test_only_what_is_needed_is_required() -> None:
    assert RankCSELoss().needs.required_inputs == ("teacher",)
    with pytest.raises(ValueError, match="needs teacher"):
        RankCSELoss()(torch.randn(2, 4, 8))
    with pytest.raises(ValueError, match="at least two rows"):
        RankCSELoss(positive_in_lists=False)(torch.randn(2, 1, 8), teacher=torch.ones(1, 1))


@pytest.mark.parametrize(
    "argument",
    [
        {"temperature": 0},
        {"student_temperature": -1},
        {"teacher_temperature": math.inf},
        {"consistency_weight": -1},
        {"distillation_weight": math.nan},
        {"distillation": "listwise"},
    ],
)
def test_rejected_arguments(argument: dict[str, float]) -> None:
    (name,) = argument
    with pytest.raises(ValueError, match=f"^{name} must"):
        RankCSELoss(**argument)  # type: ignore[arg-type]


def test_settings_of_a_term_that_is_left_out() -> None:
    assert RankCSELoss(distillation_weight=0).needs.required_inputs == ()
    assert RankCSELoss().needs.required_inputs == ("teacher",)

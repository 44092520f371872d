"""Losses in sentence-transformers: the vectors, labels and gradients that they get there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss, MatryoshkaLoss
from torch import Tensor, nn

from sts_lightning.losses import (
    AnglELoss,
    CoSENTLoss,
    CosineMSELoss,
    CrossEntropyLoss,
    InfoNCELoss,
    MSELoss,
    PearsonLoss,
    ScoreDistillationLoss,
    all_losses,
    for_sentence_transformers,
)
from sts_lightning.losses import MatryoshkaLoss as OurMatryoshkaLoss
from sts_lightning.regularizers.rank_reduction import RankReduction
from sts_lightning.testing.tiny_bert import tiny_bert
from tests.support.exports import write_export
from tests.support.loss_cases import DIMENSION, batch, make

COLUMNS = [["a dog", "who sings?", "a much longer sentence", "x"], ["the dog", "she sings", "short", "y z"]]

SCORES = torch.tensor([1.0, 0.4, 0.0, 0.7])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> SentenceTransformer:
    folder = tmp_path_factory.mktemp("tiny")
    write_export(tiny_bert(dropout=0.0), folder)
    return SentenceTransformer(str(folder), device="cpu")


def features(model: SentenceTransformer, columns: list[list[str]] = COLUMNS) -> list[dict[str, Any]]:
    return [model.preprocess(column) for column in columns]


def cosines(model: SentenceTransformer) -> np.ndarray:
    first, second = (model.encode(column, normalize_embeddings=True).astype(float) for column in COLUMNS)
    return (first * second).sum(axis=1)


def gradient(model: SentenceTransformer, loss: nn.Module, labels: Tensor) -> Tensor:
    model.zero_grad()
    loss(features(model), labels).backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])


@pytest.mark.parametrize(
    ("labels", "score_range", "expected"),
    [
        (SCORES, None, [1.0, 0.4, 0.0, 0.7]),
        (5 * SCORES, (0, 5), [1.0, 0.4, 0.0, 0.7]),
        (2 * SCORES - 1, [-1, 1], [1.0, 0.4, 0.0, 0.7]),
        (torch.tensor([1, 0, 0, 1]), None, [1.0, 0.0, 0.0, 1.0]),
        (torch.tensor([[4], [0], [2], [3]]), (0, 4), [1.0, 0.0, 0.5, 0.75]),
    ],
)
def test_scores_of_any_scale_are_those_that_the_loss_expects(
    model: SentenceTransformer, labels: Tensor, score_range: Any, expected: list[float]
) -> None:
    value = for_sentence_transformers(model, CosineMSELoss(), score_range=score_range)(
        features(model), labels
    )
    assert value.item() == pytest.approx(((cosines(model) - expected) ** 2).mean(), abs=1e-6)


def test_value_and_gradient_are_those_of_their_loss(model: SentenceTransformer) -> None:
    ours = for_sentence_transformers(model, CosineMSELoss())
    theirs = CosineSimilarityLoss(model)
    assert ours(features(model), SCORES).item() == pytest.approx(theirs(features(model), SCORES).item())
    torch.testing.assert_close(gradient(model, ours, SCORES), gradient(model, theirs, SCORES))


def test_a_regularizer_is_added(model: SentenceTransformer) -> None:
    vectors = np.concatenate([model.encode(column, normalize_embeddings=True) for column in COLUMNS])
    eigenvalues = np.linalg.eigvalsh(vectors.astype(float) @ vectors.T / len(vectors))
    entropy = -sum(value * np.log(value) for value in eigenvalues if value > 1e-9)
    expected = 1 - np.corrcoef(cosines(model), SCORES)[0, 1] + 0.1 * entropy
    loss = for_sentence_transformers(model, PearsonLoss(), RankReduction(0.1))
    assert loss(features(model), SCORES).item() == pytest.approx(expected, abs=1e-5)


def test_classes_are_passed_on(model: SentenceTransformer) -> None:
    loss, classes = CrossEntropyLoss(dimension=32, top_label=2), torch.tensor([2, 0, 1, 1])
    views = torch.stack([model(column)["sentence_embedding"] for column in features(model)])
    value = for_sentence_transformers(model, loss)(features(model), classes)
    assert value.item() == pytest.approx(loss(views, classes).item())
    both = for_sentence_transformers(model, CoSENTLoss())  # takes scores and classes: 2 is no score of [0, 1]
    assert both(features(model), classes).isfinite()


def test_a_head_trains(model: SentenceTransformer) -> None:
    loss = for_sentence_transformers(model, MSELoss(dimension=32, top_label=5))
    loss(features(model), SCORES).backward()
    assert all(weight.grad is not None for name, weight in loss.named_parameters() if "head" in name)


def test_triplets_without_labels(model: SentenceTransformer) -> None:
    columns = features(model, [*COLUMNS, ["a cat", "he runs", "no", "z"]])
    views = torch.stack([model(column)["sentence_embedding"] for column in columns])
    value = for_sentence_transformers(model, InfoNCELoss())(columns, None)
    assert value.item() == pytest.approx(InfoNCELoss()(views).item())


def test_mini_batches_have_the_gradient_of_the_batch(model: SentenceTransformer) -> None:
    whole, cached = (
        for_sentence_transformers(model, PearsonLoss(), RankReduction(0.1), mini_batch_size=size)
        for size in (None, 3)
    )
    torch.testing.assert_close(
        gradient(model, cached, SCORES), gradient(model, whole, SCORES), rtol=1e-4, atol=1e-6
    )
    with torch.no_grad():
        assert cached(features(model), SCORES).item() == pytest.approx(whole(features(model), SCORES).item())
    alone = for_sentence_transformers(model, PearsonLoss(), mini_batch_size=3)
    equal = torch.full((4,), 0.5)  # without a correlation, and still with a gradient, of zero
    assert gradient(model, alone, equal).abs().max() == 0


@pytest.mark.parametrize("size", [None, 3])
def test_their_matryoshka_loss_truncates_the_vectors(model: SentenceTransformer, size: int | None) -> None:
    views = torch.stack([model(column)["sentence_embedding"] for column in features(model)])
    expected = PearsonLoss()(views, SCORES) + PearsonLoss()(views[..., :8], SCORES)
    loss = for_sentence_transformers(model, PearsonLoss(), mini_batch_size=size)
    assert MatryoshkaLoss(model, loss, [32, 8])(features(model), SCORES).item() == pytest.approx(
        expected.item(), abs=1e-6
    )


def test_the_loss_is_computed_in_float32_under_autocast(model: SentenceTransformer) -> None:
    loss = for_sentence_transformers(model, InfoNCELoss())
    embeddings = list(torch.randn(2, 4, 32, generator=torch.Generator().manual_seed(0)))
    expected = loss.compute_loss_from_embeddings(embeddings)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert loss.compute_loss_from_embeddings(embeddings) == expected


REJECTED: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "ScoreDistillationLoss needs teacher": (ScoreDistillationLoss, {}),
    "phase1 and phase2 differ": (
        PearsonLoss,
        {"regularizer": RankReduction(phase1="increase", phase2="decrease")},
    ),
    "mini_batch_size must be None for MSELoss": (
        lambda: MSELoss(dimension=32, top_label=5),
        {"mini_batch_size": 4},
    ),
}


@pytest.mark.parametrize("message", REJECTED)
def test_what_only_the_command_has_is_rejected(model: SentenceTransformer, message: str) -> None:
    loss, settings = REJECTED[message]
    with pytest.raises(ValueError, match=message):
        for_sentence_transformers(model, loss(), **settings)


def of_dimension(dimension: int) -> Any:
    """A model that nothing is encoded by."""
    model: Any = nn.Module()
    model.get_embedding_dimension = lambda: dimension
    return model


def test_a_model_of_another_dimension_is_rejected() -> None:
    adapted = for_sentence_transformers(of_dimension(33), AnglELoss())
    with pytest.raises(ValueError, match="33"):
        adapted.compute_loss_from_embeddings([torch.ones(2, 33)] * 2, torch.tensor([0.0, 1.0]))


VALUED = [stem for stem in all_losses() if stem != "joint" and not make(stem).needs.required_inputs]
"""Losses of one data set that need nothing besides; `SentenceTransformerTrainer` has a loss for each."""


@pytest.mark.parametrize("stem", VALUED)
def test_every_loss_has_its_value(stem: str) -> None:
    loss = make(stem)
    views, labels = batch(loss)
    scores = labels is not None and labels.is_floating_point()
    adapted = for_sentence_transformers(of_dimension(DIMENSION), loss)
    given = labels / 5 if labels is not None and scores else labels
    torch.manual_seed(0)
    value = adapted.compute_loss_from_embeddings(list(views), given)
    torch.manual_seed(0)
    torch.testing.assert_close(value, loss(views, labels), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("loss", "labels", "message"),
    [
        (PearsonLoss(), 5 * SCORES, r"from 0 to 5 do not lie in \[0, 1\]; .* score_range=\(0, 5\)"),
        (PearsonLoss(), SCORES - 0.1, r"from -0.1 to 0.9 do not lie"),
        (PearsonLoss(), SCORES / 0, "do not lie"),
        (PearsonLoss(), None, "PearsonLoss needs 2 views and a similarity score, .* 2 columns and no label"),
        (InfoNCELoss(), SCORES, "InfoNCELoss needs 2 or more views and no label, .* a similarity score"),
        (CrossEntropyLoss(dimension=32, top_label=2), SCORES, "needs 2 views and a class, .* score"),
    ],
)
def test_labels_that_do_not_fit_are_rejected(
    model: SentenceTransformer, loss: Any, labels: Tensor | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        for_sentence_transformers(model, loss)(features(model), labels)


def test_columns_that_do_not_fit_are_rejected(model: SentenceTransformer) -> None:
    with pytest.raises(ValueError, match="3 columns"):
        for_sentence_transformers(model, PearsonLoss())(features(model, [*COLUMNS, COLUMNS[0]]), SCORES)


def test_sizes_beyond_that_of_a_vector() -> None:
    """Each would be the full loss once more."""
    adapted = for_sentence_transformers(of_dimension(32), OurMatryoshkaLoss(PearsonLoss(), [64, 48, 32]))
    with pytest.raises(ValueError, match=r"^dimensions must be at most 32, .*, got \[64, 48, 32\]"):
        adapted.compute_loss_from_embeddings([torch.ones(2, 32)] * 2, torch.tensor([0.0, 1.0]))

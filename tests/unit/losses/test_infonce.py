from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses as peers

from sts_lightning.export.sentence_transformers import write_sentence_transformers
from sts_lightning.losses.infonce import InfoNCELoss
from sts_lightning.testing.tiny_bert import tiny_bert
from tests.support.loss_cases import batch


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def slow(views: np.ndarray, temperature: float, weight: float) -> float:
    """Equation 5 of SimCSE, term by term."""

    def exp_cos(a: np.ndarray, b: np.ndarray, extra: float = 0.0) -> float:
        return math.exp(float(a @ b) / float(np.linalg.norm(a) * np.linalg.norm(b)) / temperature + extra)

    total = 0.0
    for i in range(views.shape[1]):
        denominator = sum(exp_cos(views[0, i], views[1, j]) for j in range(views.shape[1]))
        if len(views) == 3:
            denominator += sum(
                exp_cos(views[0, i], views[2, j], weight if i == j else 0.0) for j in range(views.shape[1])
            )
        total -= math.log(exp_cos(views[0, i], views[1, i]) / denominator)
    return total / views.shape[1]


@pytest.mark.parametrize("num_views", [2, 3])
@pytest.mark.parametrize("weight", [0.0, 1.5])
@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_equals_slow_reference(num_views: int, weight: float, temperature: float) -> None:
    views = np.random.default_rng(0).normal(size=(num_views, 5, 4))
    loss = InfoNCELoss(temperature, weight)(torch.from_numpy(views))
    assert loss.item() == pytest.approx(slow(views, temperature, weight), rel=1e-4)


def test_identical_embeddings_give_log_of_the_candidates() -> None:
    assert InfoNCELoss()(torch.ones(3, 8, 4)).item() == pytest.approx(math.log(16), rel=1e-6)
    assert InfoNCELoss()(torch.ones(2, 8, 4)).item() == pytest.approx(math.log(8), rel=1e-6)


def test_further_negatives_join_the_denominator() -> None:
    views, queue = (
        np.random.default_rng(0).normal(size=(2, 5, 4)),
        np.random.default_rng(1).normal(size=(3, 4)),
    )
    logits = np.array([[cosine(a, b) for b in (*views[1], *queue)] for a in views[0]]) / 0.05
    expected = np.mean(np.log(np.exp(logits).sum(axis=1)) - logits.diagonal())
    loss = InfoNCELoss()(torch.from_numpy(views), negatives=torch.from_numpy(queue))
    assert loss.item() == pytest.approx(expected)
    empty = InfoNCELoss()(torch.from_numpy(views), negatives=torch.zeros(0, 4).double())
    torch.testing.assert_close(empty, InfoNCELoss()(torch.from_numpy(views)))


def test_positives_may_meet_the_hard_negatives() -> None:
    views = np.random.default_rng(0).normal(size=(3, 5, 4))
    blocks = [(0, 1), (0, 2), (1, 2)]  # CoT-BERT: 3B columns
    logits = (
        np.array([[cosine(views[a][i], b) for a, c in blocks for b in views[c]] for i in range(5)]) / 0.05
    )
    expected = np.mean(np.log(np.exp(logits).sum(axis=1)) - logits.diagonal())
    assert InfoNCELoss(positive_negatives=True)(torch.from_numpy(views)).item() == pytest.approx(expected)


def test_equals_sentence_transformers() -> None:
    views, _ = batch(InfoNCELoss(), 9)
    theirs = peers.MultipleNegativesRankingLoss(None, scale=20.0)
    torch.testing.assert_close(
        InfoNCELoss()(views), theirs.compute_loss_from_embeddings(list(views), torch.zeros(9))
    )


@pytest.mark.parametrize("num_views", [2, 4])
@pytest.mark.parametrize("further", [("doc_to_query",), ("query_to_query", "doc_to_doc"), None])
def test_two_sided_forms_equal_sentence_transformers(num_views: int, further: tuple[str, ...] | None) -> None:
    """`None` is all directions, the loss of GTE."""
    views = torch.randn(num_views, 7, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    others = further or ("query_to_query", "doc_to_query", "doc_to_doc")
    theirs = peers.MultipleNegativesRankingLoss(None, scale=20.0, directions=("query_to_doc", *others))
    ours = InfoNCELoss(symmetric="doc_to_query" in others, same_side="doc_to_doc" in others)
    expected = theirs.compute_loss_from_embeddings(list(views), torch.zeros(7))
    torch.testing.assert_close(ours(views), expected)


def test_two_sided_forms_leave_out_copies() -> None:
    """Sentence 0 is the anchor of rows 0 and 2, and 4 the positive of row 1 and the anchor of row 3."""
    views = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ids = [[0, 1, 0, 4], [2, 4, 5, 6]]
    total = 0.0
    for i in range(4):
        own = {ids[0][i], ids[1][i]}
        z, positive = views[0, i].numpy(), views[1, i].numpy()
        logits = [cosine(z, positive)]
        for j in range(4):
            other, candidate = views[0, j].numpy(), views[1, j].numpy()
            if j == i or ids[0][j] not in own:
                logits += [cosine(positive, other)] + [cosine(z, other)] * (j != i)
            if j != i and ids[1][j] not in own:
                logits += [cosine(z, candidate), cosine(positive, candidate)]
        total += math.log(sum(math.exp(value / 0.05) for value in logits)) - logits[0] / 0.05
    value = InfoNCELoss(symmetric=True, same_side=True)(views, sentence_ids=torch.tensor(ids))
    assert value.item() == pytest.approx(total / 4)


@pytest.mark.parametrize("num_views", [2, 5])
def test_a_step_equals_sentence_transformers(num_views: int, tmp_path: Path) -> None:
    """Similar pairs alone, and with three hard negatives each: the loss and the gradient of all weights."""
    encoder = tiny_bert().eval()
    write_sentence_transformers(encoder, tmp_path / "out", "tiny")
    model = SentenceTransformer(str(tmp_path / "out"), device="cpu").eval()
    columns = [
        [f"{word} {view} times" for word in ("a dog", "rain", "music", "x")] for view in range(num_views)
    ]
    rows = encoder.prepare(10_000, training=False)(columns, [None] * num_views)
    ours = InfoNCELoss(0.05)(encoder(rows).unflatten(0, (num_views, 4)))
    ours.backward()
    theirs = peers.MultipleNegativesRankingLoss(model, scale=20.0)(
        [model.preprocess(texts) for texts in columns], torch.zeros(4)
    )
    theirs.backward()
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    own = {n.partition(".")[2]: p.grad for n, p in encoder.named_parameters() if p.grad is not None}
    other = {n.split(".", 2)[2]: p.grad for n, p in model.named_parameters() if p.grad is not None}
    assert len(own) > 10
    assert own.keys() == other.keys()
    for name, grad in own.items():
        torch.testing.assert_close(grad, other[name], atol=1e-5, rtol=1e-5)


def test_rejects_a_temperature_of_zero() -> None:
    with pytest.raises(ValueError, match="temperature must be positive"):
        InfoNCELoss(temperature=0.0)

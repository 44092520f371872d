from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses as peers

from sts_lightning.data.collate import View, ViewCollator
from sts_lightning.data.positives import known_positives
from sts_lightning.data.table import Table
from sts_lightning.export.sentence_transformers import write_sentence_transformers
from sts_lightning.losses.contrastive import InfoNCELoss
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


@pytest.mark.parametrize("seed", range(4))
def test_all_forms_leave_out_what_the_data_pair(seed: int) -> None:
    """Random triplets of few texts: each candidate is looked up in the table, one by one."""
    rng = np.random.default_rng(seed)
    table = [(str(rng.integers(5)), str(rng.integers(3, 12)), str(rng.integers(3, 15))) for _ in range(16)]
    columns = ("sentence1", "sentence2", "sentence3")
    known = known_positives(Table.of_rows(columns, table), columns, None)
    pairs = {(a, p) for a, p, _ in table} | {(p, a) for a, p, _ in table}
    batch = table[:9]
    views = torch.from_numpy(rng.normal(size=(3, 9, 4)))
    collate = ViewCollator([View(name) for name in columns], "none", lambda texts, _: texts, known=known)
    ids = collate([dict(zip(columns, row, strict=True)) for row in batch]).sentence_ids

    def belongs(anchor: str, text: str) -> bool:
        return anchor == text or (anchor, text) in pairs

    total = 0.0
    for i, (a, p, _) in enumerate(batch):
        kept = [(0, (1, i)), (1, (0, i))]  # view of row i, and the candidate; the first is the positive
        for j, (other, positive, hard) in enumerate(batch):
            if not belongs(a, hard):
                kept += [(0, (2, j)), (1, (2, j))] + [(1, (2, j))] * (j != i)
            if j == i:
                continue
            theirs, mine = belongs(a, positive), belongs(other, p)
            kept += [(0, (1, j))] * (not theirs)
            kept += [(1, (0, j))] * (not belongs(a, other) and not mine)
            kept += [(0, (0, j))] * (not belongs(a, other) and not theirs and not mine)
            kept += [(1, (1, j))] * (not theirs and not mine)
        logits = [cosine(views[v, i].numpy(), views[c].numpy()) / 0.05 for v, c in kept]
        total += np.logaddexp.reduce(logits) - logits[0]
    loss = InfoNCELoss(positive_negatives=True, symmetric=True, same_side=True)
    assert loss(views, sentence_ids=ids).item() == pytest.approx(total / 9)


@pytest.mark.parametrize("num_views", [2, 5])
def test_a_step_equals_sentence_transformers(num_views: int, tmp_path: Path) -> None:
    """Similar pairs alone, and with three hard negatives each: the loss and the gradient of all weights."""
    encoder = tiny_bert().eval()
    write_sentence_transformers(encoder, tmp_path / "out")
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

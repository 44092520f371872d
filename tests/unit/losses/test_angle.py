from __future__ import annotations

import pytest
import torch
from sentence_transformers.sentence_transformer import losses as peers

from sts_lightning.losses.angle import AnglELoss, angle_similarity
from tests.support.loss_cases import batch


def test_similarity_by_complex_division() -> None:
    views, _ = batch(AnglELoss(), 5)
    u, v = (torch.complex(*view.chunk(2, dim=1)) for view in views)
    # AnglE, Eq. 6: the quotient of the complex numbers, normalised by the vectors' lengths.
    quotient = (u * v.conj()) / (v.abs().square().sum(1) ** 0.5 * u.abs().square().sum(1) ** 0.5)[:, None]
    expected = (quotient.real + quotient.imag).sum(dim=1).abs()
    torch.testing.assert_close(angle_similarity(views[0], views[1]), expected)


def test_equals_sentence_transformers() -> None:
    loss = AnglELoss()
    views, labels = batch(loss, 30)
    theirs = peers.AnglELoss(None).compute_loss_from_embeddings([views[0], views[1]], labels)
    torch.testing.assert_close(loss(views, labels), theirs)


def test_scale() -> None:
    views, labels = batch(AnglELoss(), 30)
    assert AnglELoss(1.0)(views, labels) != AnglELoss(20.0)(views, labels)
    with pytest.raises(ValueError, match="scale must be positive"):
        AnglELoss(scale=-1.0)


def test_rejects_an_odd_size() -> None:
    with pytest.raises(ValueError, match="even size, but they have 3"):
        AnglELoss()(torch.ones(2, 4, 3), torch.ones(4))

from __future__ import annotations

import pytest
import torch
from sentence_transformers.sentence_transformer import losses as peers

from sts_lightning.losses.cosine_mse import CosineMSELoss
from tests.support.loss_cases import batch


def test_by_hand() -> None:
    # Cosines 1 and 0 against scores 4 and 1: ((1 - 0.8)^2 + (0 - 0.2)^2) / 2 = 0.04.
    views = torch.tensor([[[2.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 3.0]]])
    assert CosineMSELoss()(views, torch.tensor([4.0, 1.0])).item() == pytest.approx(0.04)


def test_equals_sentence_transformers() -> None:
    loss = CosineMSELoss()
    views, labels = batch(loss, 30)
    assert labels is not None
    theirs = peers.CosineSimilarityLoss(None).compute_loss_from_embeddings([views[0], views[1]], labels / 5)
    torch.testing.assert_close(loss(views, labels), theirs)

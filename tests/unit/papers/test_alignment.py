from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from sts_lightning.losses.contrastive import DecoupledLoss
from sts_lightning.papers.alignment import (
    alignment,
    contrastive_alignment,
    contrastive_uniformity,
    uniformity,
)


def rows(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(6, 4))


def unit(vectors: np.ndarray) -> np.ndarray:
    return np.array([vector / math.sqrt(sum(vector**2)) for vector in vectors])


def test_alignment_pair_by_pair() -> None:
    a, b = unit(rows(0)), unit(rows(1))
    expected = [math.dist(x, y) for x, y in zip(a, b, strict=True)]
    assert alignment(rows(0), rows(1)) == pytest.approx(np.mean(np.square(expected)))
    assert alignment(rows(0), rows(1), alpha=1.0) == pytest.approx(np.mean(expected))
    assert alignment(rows(0), 5 * rows(0)) == pytest.approx(0.0)


def test_uniformity_pair_by_pair() -> None:
    pairs = itertools.combinations(unit(rows(0)), 2)
    expected = math.log(np.mean([math.exp(-2 * math.dist(x, y) ** 2) for x, y in pairs]))
    assert uniformity(rows(0)) == pytest.approx(expected)
    assert uniformity(np.ones((5, 3))) == pytest.approx(0.0)


def test_contrastive_parts_are_those_of_the_decoupled_loss() -> None:
    loss = DecoupledLoss()
    terms = loss.metrics(torch.from_numpy(np.stack([rows(0), rows(1)])))
    assert contrastive_alignment(rows(0), rows(1)) == pytest.approx(float(terms["alignment"]))
    terms = loss.metrics(torch.from_numpy(np.stack([rows(0), rows(0)])))
    assert contrastive_uniformity(rows(0)) == pytest.approx(float(terms["uniformity"]))


def test_one_vector_has_no_uniformity() -> None:
    with pytest.raises(ValueError, match="at least two"):
        uniformity(np.ones((1, 3)))

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

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
    assert alignment(rows(0), 5 * rows(0)) == pytest.approx(0.0)


def test_uniformity_pair_by_pair() -> None:
    pairs = itertools.combinations(unit(rows(0)), 2)
    expected = math.log(np.mean([math.exp(-2 * math.dist(x, y) ** 2) for x, y in pairs]))
    assert uniformity(rows(0)) == pytest.approx(expected)
    assert uniformity(np.ones((5, 3))) == pytest.approx(0.0)


@pytest.mark.parametrize("second", [0, 1])
def test_contrastive_terms_row_by_row(second: int) -> None:
    cosines = unit(rows(0)) @ unit(rows(second)).T / 0.05
    assert contrastive_alignment(rows(0), rows(second)) == pytest.approx(-np.mean(np.diag(cosines)))
    sums = [math.log(sum(math.exp(cosines[i, j]) for j in range(6) if j != i)) for i in range(6)]
    assert contrastive_uniformity(rows(0), rows(second)) == pytest.approx(np.mean(sums))

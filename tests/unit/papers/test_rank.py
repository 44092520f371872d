from __future__ import annotations

import math

import numpy as np
import pytest

from sts_lightning.papers.vector_ranks import effective_rank, energy_rank, singular_values


@pytest.mark.parametrize("shape", [(40, 7), (7, 40)])
@pytest.mark.parametrize("normalize", [True, False])
def test_singular_values_are_numpys(shape: tuple[int, int], normalize: bool) -> None:
    rows = np.random.default_rng(0).normal(size=shape) * 3
    expected = rows / np.linalg.norm(rows, axis=1, keepdims=True) if normalize else rows
    found = singular_values(rows, normalize)
    np.testing.assert_allclose(found, np.linalg.svd(expected, compute_uv=False), atol=1e-6)


def test_energy_rank_by_hand() -> None:
    values = np.array([3.0, 2.0, 1.0])  # squares 9, 4, 1: shares 9/14, 13/14, 1
    assert [energy_rank(values, f) for f in (0.6, 9 / 14, 0.65, 13 / 14, 0.95, 1.0)] == [1, 1, 2, 2, 3, 3]
    assert [energy_rank(values, f, power=1) for f in (0.5, 0.51, 5 / 6, 0.9)] == [1, 2, 2, 3]


def test_rank_of_vectors_in_a_subspace() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 5)) @ rng.normal(size=(5, 50))
    assert energy_rank(singular_values(rows), 1 - 1e-9) == 5
    assert effective_rank(singular_values(rows)) <= 5


def test_effective_rank_by_hand() -> None:
    assert effective_rank(np.ones(6)) == pytest.approx(6.0)
    assert effective_rank(np.array([1.0, 0.0, 0.0])) == pytest.approx(1.0)
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert effective_rank(np.array([3.0, 1.0])) == pytest.approx(math.exp(entropy))
    entropy = -(0.9 * math.log(0.9) + 0.1 * math.log(0.1))
    assert effective_rank(np.array([3.0, 1.0]), power=2) == pytest.approx(math.exp(entropy))


def test_zero_vectors() -> None:
    values = singular_values(np.zeros((4, 3)))
    assert (energy_rank(values), effective_rank(values)) == (0, 0.0)


def test_refuses() -> None:
    with pytest.raises(ValueError, match="fraction"):
        energy_rank(np.ones(3), 0.0)
    with pytest.raises(ValueError, match="power"):
        energy_rank(np.ones(3), power=3)
    with pytest.raises(ValueError, match="power"):
        effective_rank(np.ones(3), power=0)
    with pytest.raises(ValueError, match="shape"):
        singular_values(np.zeros((0, 3)))

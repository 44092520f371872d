"""Ranks of matrices of vectors, by hand and against a singular value decomposition."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.data.table import Table
from sts_lightning.evaluation.sts import encode_tables
from sts_lightning.papers.vector_ranks import effective_rank, energy_rank, rank_tasks, singular_values

SENTENCES = [f"s{number}" for number in range(40)]

VECTORS = np.random.default_rng(0).standard_normal((40, 12)) * np.geomspace(1, 0.01, 12)

VECTORS[:5, 0] *= 100  # a few long rows, which dominate unless all are scaled


class Given:
    """Encoder with fixed vectors."""

    def encode(self, sentences: Sequence[str], /) -> np.ndarray:
        return VECTORS[[SENTENCES.index(text) for text in sentences]].astype(np.float32)


def by_decomposition(rows: range, normalize: bool) -> int:
    matrix = VECTORS[rows].astype(np.float32).astype(np.float64)
    if normalize:
        matrix = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    energy = np.linalg.svd(matrix, compute_uv=False) ** 2
    count = 1
    while energy[:count].sum() < 0.99 * energy.sum():
        count += 1
    return count


def test_all_readings() -> None:
    # sentence 0 is repeated, which changes no rank
    first, second = [*SENTENCES[:20], "s0"], [*SENTENCES[20:], "s39"]
    table = Table({"sentence1": first, "sentence2": second, "label": [1.0] * 21})
    result = rank_tasks([STSTask("STS12", {"x": table})], encode_tables(Given(), [table]))
    task = result["tasks"]["STS12"]
    assert task["sentences"] == 40
    assert task["score"] == result["average"] == by_decomposition(range(40), normalize=False)
    assert task["normalized"] == by_decomposition(range(40), normalize=True)
    assert task["first"] == by_decomposition(range(20), normalize=False)
    assert task["first_normalized"] == by_decomposition(range(20), normalize=True)
    assert len({task["score"], task["normalized"]}) == 2


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

"""Ranks of test sentences' vectors, against a singular value decomposition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.data.table import Table
from sts_lightning.evaluation.sts import encode_tables
from sts_lightning.papers.vector_ranks import rank_tasks

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

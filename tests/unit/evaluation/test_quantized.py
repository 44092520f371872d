"""Vectors of fewer values and bits, against values computed by hand, slow loops and sentence-transformers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr
from sentence_transformers.util.quantization import quantize_embeddings

from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.data.table import Table
from sts_lightning.evaluation.encoding import Embedded
from sts_lightning.evaluation.quantized import as_int8, as_signs, score_quantized
from sts_lightning.evaluation.statistics import pair_cosines

DRAW = np.random.default_rng(0)

VECTORS = DRAW.normal(size=(40, 20)).astype(np.float32)


def test_int8_by_hand() -> None:
    vectors = np.array([[1, -0.5, 0.25], [-0.02, 0.01, 0], [0, 0, 0]], dtype=np.float32)
    found = as_int8(vectors)
    assert found.dtype == np.int8
    assert found.tolist() == [[127, -64, 32], [-127, 64, 0], [0, 0, 0]]


def test_cosines_of_signs_are_those_of_the_bits_of_sentence_transformers() -> None:
    first, second = (np.unpackbits(quantize_embeddings(VECTORS[part], "ubinary"), axis=1) for part in HALVES)
    distances = (first != second).sum(axis=1)
    found = pair_cosines(*(as_signs(VECTORS[part]) for part in HALVES))
    np.testing.assert_allclose(found, 1 - 2 * distances / 20, atol=1e-12)
    assert len(set(found)) == len(set(distances))  # ties stay ties


HALVES = slice(0, 20), slice(20, 40)


def slow_cosine(u: list[float], v: list[float], name: str) -> float:
    if name == "int8":
        u, v = ([round(127 * x / max(map(abs, w))) for x in w] for w in (u, v))
    if name == "binary":
        return 1 - 2 * sum((x > 0) != (y > 0) for x, y in zip(u, v, strict=True)) / len(u)
    dot = sum(x * y for x, y in zip(u, v, strict=True))
    return dot / (sum(x * x for x in u) * sum(y * y for y in v)) ** 0.5


def test_each_combination() -> None:
    texts = [f"text {row}" for row in range(40)]
    golds = {"T": DRAW.integers(0, 6, 20).astype(float), "U": DRAW.random(20)}
    tasks = [
        STSTask(name, {"test": Table({"sentence1": texts[:20], "sentence2": texts[20:], "label": gold})})
        for name, gold in golds.items()
    ]
    embedded = Embedded(VECTORS, {text: row for row, text in enumerate(texts)})
    assert score_quantized(embedded, tasks, "all", [], ["float32"]) == {}
    found = score_quantized(embedded, tasks, "all", [9, 20], ["binary", "float32", "int8"])
    assert {name: one["bytes"] for name, one in found.items()} == {
        "20 float32": 80,
        "20 binary": 3,
        "20 int8": 20,
        "9 binary": 2,
        "9 float32": 36,
        "9 int8": 9,
    }
    for name, one in found.items():
        dim, kind = name.split()
        rows = VECTORS[:, : int(dim)].astype(float).tolist()
        cosines = [slow_cosine(u, v, kind) for u, v in zip(rows[:20], rows[20:], strict=True)]
        expected = {task: 100 * spearmanr(cosines, gold).statistic for task, gold in golds.items()}
        expected["average"] = sum(expected.values()) / 2
        assert one["scores"] == pytest.approx(expected, abs=1e-9)

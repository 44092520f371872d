from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from sts_lightning.core.choices import Aggregate
from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.data.table import Table
from sts_lightning.evaluation.sts import evaluate_sts


class Angles:
    """A sentence is an angle in degrees; counts what it encodes."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def encode(self, sentences: Sequence[str], /) -> np.ndarray:
        self.calls.append(list(sentences))
        angles = np.radians([float(text) for text in sentences])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def table(pairs: list[tuple[int, int, float]]) -> object:
    first, second, label = zip(*pairs, strict=True)
    return Table({"sentence1": list(map(str, first)), "sentence2": list(map(str, second)), "label": label})


PAIRS = {
    "a": [(0, 10, 5.0), (0, 50, 2.0), (10, 40, 2.0), (0, 90, 1.0)],
    "b": [(0, 5, 3.0), (0, 70, 2.5), (50, 10, 0.0)],
}
TASKS = [
    STSTask("T", {name: table(pairs) for name, pairs in PAIRS.items()}),
    STSTask("U", {"test": table([(0, 10, 1.0), (0, 50, 3.0)])}),
]


def spearman(pairs: list[tuple[int, int, float]]) -> float:
    cosines = [np.cos(np.radians(a - b)) for a, b, _ in pairs]
    return 100 * float(stats.spearmanr(cosines, [gold for *_, gold in pairs]).statistic)


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        ("all", spearman(PAIRS["a"] + PAIRS["b"])),
        ("mean", (spearman(PAIRS["a"]) + spearman(PAIRS["b"])) / 2),
        ("wmean", (4 * spearman(PAIRS["a"]) + 3 * spearman(PAIRS["b"])) / 7),
    ],
)
def test_aggregates(aggregate: Aggregate, expected: float) -> None:
    result = evaluate_sts(Angles(), TASKS, aggregate)
    assert result["tasks"]["T"]["spearman"] == pytest.approx(expected)
    assert result["tasks"]["T"]["pairs"] == 7
    assert result["tasks"]["U"]["spearman"] == pytest.approx(-100)
    assert result["average"] == pytest.approx((expected - 100) / 2)
    assert result["tasks"]["T"]["subsets"]["b"]["spearman"] == pytest.approx(spearman(PAIRS["b"]))


def test_each_distinct_sentence_is_encoded_once_for_all_tasks() -> None:
    encoder = Angles()
    evaluate_sts(encoder, TASKS)
    (sentences,) = encoder.calls
    assert sorted(sentences, key=int) == ["0", "5", "10", "40", "50", "70", "90"]


def test_an_unknown_aggregate() -> None:
    with pytest.raises(KeyError, match="median"):
        evaluate_sts(Angles(), TASKS, "median")

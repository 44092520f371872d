"""The word, the bounds and the line of a verdict, against a slow bootstrap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from sts_lightning.core.errors import CheckpointError
from sts_lightning.evaluation.statistics import Interval
from sts_lightning.evaluation.verdict import (
    compare_found,
    compare_tasks,
    in_words,
    stored_verdict,
    verdict_of,
    verdict_on,
)
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.runs.predictions import OfTask, load_dev, save_dev

HITS = (1.0, 0.5, 1 / 3, 0.25, 0.0)


def queries(shift: int, size: int = 200, seed: int = 0) -> dict[str, np.ndarray]:
    """Reciprocal ranks, of which a shift makes some higher or lower; some triplets are missing."""
    ranks = np.random.default_rng(seed).integers(len(HITS), size=size)
    moved = np.clip(ranks - shift * (np.arange(size) % 3 == 0), 0, len(HITS) - 1)
    triplets = np.where(np.arange(size) % 2, np.nan, 1.0)
    return {"mrr@10": np.array(HITS)[moved], "triplets": triplets}


def pairs(noise: float, size: int = 120) -> tuple[np.ndarray, np.ndarray]:
    gold = np.random.default_rng(0).integers(0, 11, size=size) / 2
    return np.tanh((gold + noise * np.random.default_rng(1).normal(size=size)) / 10), gold


def slow_bounds(before: OfTask, after: OfTask, draws: int) -> tuple[float, float]:
    rng, found = np.random.default_rng(3), []
    for _ in range(draws):
        if isinstance(before, dict) or isinstance(after, dict):
            gaps = after["mrr@10"] - before["mrr@10"]  # type: ignore[call-overload]
            found.append(100 * gaps[rng.integers(len(gaps), size=len(gaps))].mean())
            continue
        drawn = rng.integers(len(before[0]), size=len(before[0]))
        one, other = (stats.spearmanr(x[drawn], g[drawn]).statistic for x, g in (before, after))
        found.append(100 * (other - one))
    low, high = np.percentile(found, (2.5, 97.5))
    return float(low), float(high)


@pytest.mark.parametrize(
    ("before", "after", "word"), [(0, 1, "better"), (1, 0, "worse"), (0, 0, "no difference found")]
)
def test_words_and_bounds_of_queries(before: int, after: int, word: str) -> None:
    one, other = queries(before), queries(after)
    verdict = compare_found(one, other)
    assert verdict["verdict"] == word
    assert (verdict["score"], verdict["units"]) == ("MRR@10", "200 held-out queries")
    means = [100 * each["mrr@10"].mean() for each in (one, other)]
    assert [verdict["before"], verdict["after"]] == pytest.approx(means)
    assert verdict["difference"] == pytest.approx(means[1] - means[0])
    expected = slow_bounds(one, other, 10_000)
    assert (verdict["low"], verdict["high"]) == pytest.approx(expected, abs=0.15)


def test_without_an_effect_the_word_says_so() -> None:
    """The same reciprocal ranks in another order: a gap of each query, and none on average."""
    one = queries(0)
    other = {"mrr@10": np.roll(one["mrr@10"], 1)}
    verdict = compare_found({"mrr@10": one["mrr@10"]}, other)
    assert verdict["verdict"] == "no difference found"
    assert verdict["low"] < -1 < 1 < verdict["high"]
    one_query = {"mrr@10": np.ones(1)}
    assert compare_found(one_query, one_query)["units"] == "1 held-out query"


def test_scored_pairs() -> None:
    one, other = pairs(6.0), pairs(3.0)
    verdict = compare_found(one, other)
    means = [100 * stats.spearmanr(x, g).statistic for x, g in (one, other)]
    assert (verdict["score"], verdict["units"]) == ("Spearman", "120 held-out pairs")
    assert [verdict["before"], verdict["after"]] == pytest.approx(means)
    assert (verdict["low"], verdict["high"]) == pytest.approx(slow_bounds(one, other, 1000), abs=1.5)
    assert verdict["verdict"] == "better"


def test_tasks_are_averaged() -> None:
    one, other = {"A": pairs(6.0), "B": pairs(3.0)}, {"A": pairs(3.0), "B": pairs(3.0)}
    verdict = compare_tasks(one, other, "Spearman", "two tasks")
    alone = compare_found(one["A"], other["A"])
    assert verdict["difference"] == pytest.approx(alone["difference"] / 2)
    assert in_words(verdict).endswith("on two tasks")


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.1, 2, "better"),
        (0.0, 2, "no difference found"),
        (-2, 0.0, "no difference found"),
        (-2, -0.1, "worse"),
    ],
)
def test_a_bound_of_zero_is_no_difference(low: float, high: float, word: str) -> None:
    first, second = Interval(61.17, 60, 62), Interval(73.96, 70, 75)
    verdict = verdict_on(first, second, Interval(12.79, low, high), "MRR@10", "412 held-out queries")
    line = f"{word}: MRR@10 61.2 -> 74.0, +12.8 [{low:+.1f}, {high:+.1f}] on 412 held-out queries"
    assert in_words(verdict) == line


@pytest.mark.parametrize("found", [queries(0), pairs(1.0)])
def test_what_is_stored_of_the_dev_data(found: OfTask, tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    assert load_dev(run) == {}
    assert verdict_of(run, 8) is None
    save_dev(run, 0, found, selected=False)
    assert verdict_of(run, 8) is None  # only the weights before training
    save_dev(run, 4, found, selected=True)
    save_dev(run, 8, found, selected=True)
    stored = load_dev(run)
    assert {name: step for name, (step, _) in stored.items()} == {"untuned": 0, "selected": 8}
    for _, each in stored.values():
        ours, theirs = (x.values() if isinstance(x, dict) else x for x in (found, each))
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)
    assert verdict_of(run, 4) is None
    verdict: Any = verdict_of(run, 8)
    assert verdict["verdict"] == "no difference found"
    scores = {"mrr@10": 50.0} if isinstance(found, dict) else {"spearman": 50.0}
    run.save_metrics(RunMetrics(None, scores, {"verdict": verdict}))
    assert stored_verdict(run) == verdict


@pytest.mark.parametrize("stored", [None, {"verdict": "better"}])
def test_a_run_without_a_verdict(stored: Any, tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.save_metrics(RunMetrics(None, {"spearman": 50.0}, {"verdict": stored}))
    with pytest.raises(CheckpointError, match="has no verdict on its dev data") as raised:
        stored_verdict(run)
    assert "--to RUN" in str(raised.value)

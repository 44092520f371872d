"""The audit on simulated test sets whose leaked pairs a model knows, or not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sts_lightning.data.leaked_rows import LeakedRows, SetLeaks, hash_scores
from sts_lightning.data.pair_tables import make_table
from sts_lightning.data.readers.senteval import STSTask
from sts_lightning.evaluation.audit import (
    AuditedPairs,
    audit,
    audited_pairs,
    gold_errors,
    match_strata,
    word_overlap,
)


def test_word_overlap() -> None:
    assert word_overlap("A dog barks.", "the dog, barks") == pytest.approx(2 * 2 / 6)
    assert word_overlap("a", "b") == 0
    assert word_overlap("same words", "Words same!") == 1
    assert word_overlap("...", "?") == 1
    assert word_overlap("...", "word") == 0


def test_gold_errors() -> None:
    """Scores 0.1 < 0.2 < 0.3 with gold 1, 3, 2: the best monotone map is 1, 2.5, 2.5; subsets are apart."""
    scores = np.array([0.1, 0.2, 0.3, 0.1, 0.2])
    gold = np.array([1.0, 3.0, 2.0, 4.0, 5.0])
    errors = gold_errors(scores, gold, np.array([0, 0, 0, 1, 1]))
    assert errors == pytest.approx([0, 0.5, 0.5, 0, 0])
    stretched = gold_errors(np.exp(9 * scores), gold, np.array([0, 0, 0, 1, 1]))
    assert stretched == pytest.approx(errors)


def simple_pairs() -> tuple[list[STSTask], LeakedRows]:
    rows = [("a b", "c d", 0.0), ("a b c", "d", 2.4), ("x y", "z", 2.6), ("c d", "a b", 5.0)]
    first, second, labels = zip(*rows, strict=True)
    table = make_table({"sentence1": first, "sentence2": second, "label": labels})
    tasks = [STSTask("one", {"x": table, "y": table.select([0, 2])}), STSTask("two", {"test": table})]
    gold = np.array([*labels, labels[0], labels[2]])
    one = SetLeaks(hash_scores(gold), np.array(["", "exact", "", "near", "", ""]))
    two = SetLeaks(hash_scores(np.array(labels)), np.array(["", "", "swapped", ""]))
    return tasks, LeakedRows("mine", 0.8, {"one": one, "two": two})


def test_columns_of_pairs() -> None:
    pairs = audited_pairs(*simple_pairs())
    assert pairs.task.tolist() == ["one"] * 6 + ["two"] * 4
    assert pairs.subset.tolist() == [0] * 4 + [1] * 2 + [2] * 4
    assert pairs.words[:4].tolist() == [4, 4, 3, 4]
    assert pairs.kind.tolist() == ["", "exact", "", "near", "", "", "", "", "swapped", ""]
    assert pairs.repeated.tolist() == [False, False, False, True, True, True, True, True, True, True]


def test_strata_differ_in_subset_gold_score_and_length() -> None:
    size = 8
    pairs = AuditedPairs(
        np.full(size, "one"),
        np.array([0, 0, 0, 0, 0, 0, 1, 1]),
        np.array([1.5, 2.4, 2.5, 1.6, 1.6, 1.6, 1.6, 1.6]),
        np.array([5, 5, 5, 5, 9, 20, 5, 5]),
        np.zeros(size),
        np.full(size, ""),
        np.zeros(size, dtype=bool),
    )
    strata = match_strata(pairs).tolist()
    assert strata[0] == strata[1] == strata[3]  # 2 points
    assert strata[6] == strata[7]
    assert strata[4] != strata[3]  # longer
    assert len(set(strata)) == 4


SIZE = 900


def simulated(seed: int, known: float, harder: float = 0.0) -> tuple[np.ndarray, np.ndarray, AuditedPairs]:
    """Scores of a model and of a reference on three subsets of two sets.

    Args:
        seed: Random seed.
        known: Share of the noise of the scores that is gone on leaked pairs.
        harder: Share by which leaked pairs are noisier for model and reference.
    """
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 26, size=SIZE) / 5
    subset = rng.integers(3, size=SIZE)
    kind = rng.choice(["", "exact", "swapped", "near"], size=SIZE, p=[0.5, 0.4, 0.05, 0.05])
    leaked = np.isin(kind, ["exact", "swapped"])
    common = rng.normal(size=SIZE) * (1 + harder * leaked)
    scores = np.tanh(gold + (common + rng.normal(size=SIZE)) * (1 - known * leaked) - 2.5)
    reference = gold + 1.5 * common + rng.normal(size=SIZE) * (1 + harder * leaked)
    words = rng.integers(5, 40, size=SIZE)
    task = np.where(subset < 2, "one", "two")
    zeros = np.zeros(SIZE)
    return scores, reference, AuditedPairs(task, subset, gold, words, zeros, kind, zeros.astype(bool))


def test_a_model_that_knows_the_leaked_pairs() -> None:
    scores, reference, pairs = simulated(0, known=0.5)
    found = audit(scores, reference, pairs, resamples=200)
    assert found.whole is not None
    assert found.whole.p_value == pytest.approx(1 / 201)
    assert 0 < found.whole.low < found.whole.estimate < found.whole.high
    assert found.whole.marked + found.whole.controls <= SIZE
    assert set(found.sets) == {"one", "two"}
    assert all(one is not None and one.p_value <= 0.05 for one in found.sets.values())
    assert found.kinds["near"] is not None
    assert found.kinds["near"].p_value > 0.05  # the model does not know these
    assert found.kinds["normalized"] is None
    assert found.mean_error == pytest.approx(gold_errors(scores, pairs.gold, pairs.subset).mean())


def test_the_reference_explains_pairs_that_are_harder_for_all() -> None:
    """Half of the difference that would be seen against nothing is one of the pairs themselves."""
    scores, reference, pairs = simulated(0, known=0.0, harder=0.6)
    alone = audit(scores, np.zeros(SIZE), pairs, resamples=1)
    against = audit(scores, reference, pairs, resamples=1)
    assert alone.whole is not None
    assert against.whole is not None
    assert alone.whole.estimate < against.whole.estimate < 0 or abs(against.whole.estimate) < 0.05
    assert against.slope > 0.3


def test_a_model_is_no_better_than_itself() -> None:
    scores, _, pairs = simulated(2, known=0.5)
    found = audit(scores, scores, pairs, resamples=100)
    assert found.slope == pytest.approx(1)
    assert found.whole is not None
    assert found.whole.estimate == pytest.approx(0, abs=1e-9)
    assert found.whole.p_value > 0.5


def test_a_pair_in_two_sets_counts_once() -> None:
    scores, reference, pairs = simulated(3, known=0.5)
    repeated = np.zeros(SIZE, dtype=bool)
    repeated[::2] = True
    once = AuditedPairs(
        pairs.task, pairs.subset, pairs.gold, pairs.words, pairs.overlap, pairs.kind, repeated
    )
    found = audit(scores, reference, once, resamples=1)
    assert found.whole is not None
    assert found.whole.marked + found.whole.controls <= SIZE / 2


@pytest.mark.slow
def test_false_alarms_through_the_monotone_map() -> None:
    runs = 300
    alarms = 0
    for seed in range(runs):
        whole = audit(*simulated(seed, known=0.0), resamples=99).whole
        assert whole is not None
        alarms += whole.p_value <= 0.05
    assert stats.binomtest(alarms, runs, 0.05, alternative="greater").pvalue > 0.01


@pytest.mark.slow
def test_power_against_weakly_known_pairs() -> None:
    """Noise smaller by a quarter on leaked pairs is found in most runs of 900 pairs."""
    runs = 60
    found = [audit(*simulated(seed, known=0.25), resamples=99).whole for seed in range(runs)]
    assert sum(one is not None and one.p_value <= 0.05 for one in found) >= 0.8 * runs

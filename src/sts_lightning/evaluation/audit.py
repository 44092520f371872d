"""Comparison of a model on test pairs that occur in public training sets and on matched clean pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sts_lightning.data.leak_search import Kind
from sts_lightning.data.leaked_rows import CLEAN, LeakedRows
from sts_lightning.data.overlap import Key, pair_key
from sts_lightning.data.pair_tables import values_of
from sts_lightning.data.readers.senteval import STSTask
from sts_lightning.evaluation.calibration_fit import monotone_map
from sts_lightning.evaluation.matched import MatchedDifference, matched_difference, without_reference

LITERAL: tuple[Kind, ...] = ("exact", "swapped")
"""Kinds of the main comparison: what the papers' filter removes."""

FURTHER: tuple[Kind, ...] = ("normalized", "near")
"""Kinds that are compared on their own, and are in neither group of the main comparison."""

MARKS = ".,;:!?'\"()"
"""Punctuation that is no part of a word."""

LENGTHS = 4
"""Groups of equal size by the number of words, within a subset."""


@dataclass(frozen=True, eq=False)
class AuditedPairs:
    """Pairs of all test sets, one set after another, with what they are matched by.

    Attributes:
        task: Name of the test set of each pair, (N,).
        subset: Number of its subset, (N,).
        gold: Gold score in [0, 5], (N,).
        words: Number of words of both sentences, (N,).
        overlap: Overlap of the words of the sentences in [0, 1], see `word_overlap`, (N,).
        kind: Kind of equality with a training pair, empty for none, (N,).
        repeated: Whether the pair occurs before, in this or another set, in either order, (N,).
    """

    task: np.ndarray
    subset: np.ndarray
    gold: np.ndarray
    words: np.ndarray
    overlap: np.ndarray
    kind: np.ndarray
    repeated: np.ndarray


@dataclass(frozen=True)
class Audit:
    """Result of an audit; differences are in points of the gold scale, 0 to 5, positive if leaks help.

    Attributes:
        whole: All sets together; None where no stratum has leaked and clean pairs.
        sets: Each set.
        kinds: Pairs of the kinds in `FURTHER` against the same clean pairs, all sets together.
        slope: Slope with which the reference's errors were subtracted in ``whole``.
        mean_error: The model's mean distance from the gold score, over all pairs.
    """

    whole: MatchedDifference | None
    sets: Mapping[str, MatchedDifference | None]
    kinds: Mapping[str, MatchedDifference | None]
    slope: float
    mean_error: float


def audited_pairs(tasks: Sequence[STSTask], leaks: LeakedRows) -> AuditedPairs:
    """Return the pairs of test sets in the order of predictions.

    Args:
        tasks: Test sets; their gold scores fit the leaks.
        leaks: Test pairs that occur in training sets.
    """
    seen: set[Key] = set()
    columns: list[tuple[str, int, float, int, float, bool]] = []
    subset = 0
    for task in tasks:
        for table in task.subsets.values():
            for first, second, gold in zip(
                values_of(table, "sentence1"),
                values_of(table, "sentence2"),
                values_of(table, "label"),
                strict=True,
            ):
                key = pair_key(first, second, "normalized")
                words = len(first.split()) + len(second.split())
                columns.append((task.name, subset, gold, words, word_overlap(first, second), key in seen))
                seen.add(key)
            subset += 1
    names, subsets, golds, lengths, overlaps, repeated = map(np.asarray, zip(*columns, strict=True))
    kinds = np.concatenate([leaks.tests[task.name].kinds for task in tasks])
    return AuditedPairs(names, subsets, golds, lengths, overlaps, kinds, repeated)


def word_overlap(first: str, second: str) -> float:
    """Return the share of common words of two sentences, 2 |A & B| / (|A| + |B|); lower-cased."""
    one, two = ({word.strip(MARKS) for word in text.lower().split()} - {""} for text in (first, second))
    return 2 * len(one & two) / (len(one) + len(two)) if one or two else 1.0


def gold_errors(scores: np.ndarray, gold: np.ndarray, subset: np.ndarray) -> np.ndarray:
    """Return the distance of each gold score from the best monotone map of the scores, (N,).

    The map is fitted by isotonic regression to all pairs of a subset, leaked and clean alike, so that errors
    do not depend on the scale of the scores or on which pairs are leaked.

    Args:
        scores: Cosines or other similarities, (N,).
        gold: Gold scores, (N,).
        subset: Number of the subset of each pair, (N,).
    """
    errors = np.empty(len(gold))
    for number in np.unique(subset):
        rows = subset == number
        knots, values = monotone_map(scores[rows], gold[rows])
        errors[rows] = np.abs(gold[rows] - np.interp(scores[rows], knots, values))
    return errors


def match_strata(pairs: AuditedPairs) -> np.ndarray:
    """Return the stratum of each pair by subset, gold score in whole points, and quarter by length, (N,)."""
    quarters = np.zeros(len(pairs.gold), dtype=int)
    for number in np.unique(pairs.subset):
        rows = pairs.subset == number
        cuts = np.quantile(pairs.words[rows], np.arange(1, LENGTHS) / LENGTHS)
        quarters[rows] = np.searchsorted(cuts, pairs.words[rows])
    points = np.floor(pairs.gold + 0.5).astype(int)
    return np.asarray(np.unique(np.stack([pairs.subset, points, quarters]), axis=1, return_inverse=True)[1])


def audit(
    scores: np.ndarray, reference: np.ndarray, pairs: AuditedPairs, resamples: int = 2000, seed: int = 0
) -> Audit:
    """Compare errors on leaked test pairs with those on clean pairs of the same stratum.

    The value of a pair is the distance of its gold score from the monotone map of the model's scores
    (`gold_errors`), minus what the same distances of a reference predict (`without_reference`). Pairs are
    matched by `match_strata` and compared by `matched_difference`. A pair that occurs in several sets counts
    once. Pairs that are leaked in another sense than the compared one are in neither group.

    Assumption: among pairs of one subset with similar length and gold score, whether a pair is in the
    training sets has nothing to do with how much better the model fits it than the reference does. It holds
    by design where the training set is a random part of a subset, as STS-B train mostly is. Leaked pairs that
    are easier for every encoder do not trouble it if they are so for the reference too: take the model that
    the audited one started from, if it is known not to have seen the pairs. The word overlap of a pair is the
    reference that has certainly seen nothing. A reference that was itself trained on the leaked pairs hides
    the effect.

    Args:
        scores: The model's similarities of all pairs, (N,).
        reference: Those of the reference, (N,).
        pairs: The pairs.
        resamples: Number of permutations, and of bootstrap resamples.
        seed: Random seed of both.

    Raises:
        ValueError: ``resamples`` is below 1.
    """
    errors, baseline = (gold_errors(values, pairs.gold, pairs.subset) for values in (scores, reference))
    strata = match_strata(pairs)

    def compare(kinds: Sequence[Kind], among: np.ndarray) -> tuple[MatchedDifference | None, float]:
        marked = np.isin(pairs.kind, kinds)
        used = among & ~pairs.repeated & (marked | (pairs.kind == CLEAN))
        arguments = (marked[used], strata[used])
        values, slope = without_reference(errors[used], baseline[used], *arguments)
        return matched_difference(values, *arguments, resamples, seed), slope

    everywhere = np.ones(len(errors), dtype=bool)
    whole, slope = compare(LITERAL, everywhere)
    return Audit(
        whole,
        {str(name): compare(LITERAL, pairs.task == name)[0] for name in dict.fromkeys(pairs.task.tolist())},
        {kind: compare([kind], everywhere)[0] for kind in FURTHER},
        slope,
        float(errors.mean()),
    )

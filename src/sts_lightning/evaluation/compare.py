"""Comparison of two sets of runs, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sts_lightning.errors import CheckpointError
from sts_lightning.evaluation.bootstrap import Interval, paired_difference, score_intervals
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.predictions import comparable_predictions


def compare(
    first: Sequence[Path], second: Sequence[Path], resamples: int = 1000
) -> tuple[dict[str, Interval], dict[str, Interval], dict[str, Interval]]:
    """Return the scores of two systems and their difference (second minus first), by task and on average.

    Args:
        first: Run folders of one system, which differ in their seed.
        second: Run folders of the other system.
        resamples: Number of bootstrap resamples of the test pairs.

    Raises:
        CheckpointError: A run has no predictions, they are on other pairs, or its scores are not those of all
            pairs of a test set together.
    """
    ours, theirs = (
        [comparable_predictions(RunFolder(run).last_stage()) for run in runs] for runs in (first, second)
    )
    try:
        difference = paired_difference(theirs, ours, resamples)
    except ValueError as error:
        names = ", ".join(map(str, (*first, *second)))
        raise CheckpointError(f"{names}: {error}") from error
    return score_intervals(ours, resamples), score_intervals(theirs, resamples), difference

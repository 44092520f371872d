"""Two sets of runs side by side, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sts_lightning.errors import CheckpointError
from sts_lightning.evaluation.bootstrap import Interval, paired_difference, score_intervals
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.predictions import load_predictions


def compare(
    first: Sequence[Path], second: Sequence[Path], resamples: int = 1000
) -> tuple[dict[str, Interval], dict[str, Interval], dict[str, Interval]]:
    """Scores of two systems and their difference, second less first, for each task and on average.

    Args:
        first: Runs of one system, which differ by their seed.
        second: Those of the other.
        resamples: Draws of the test pairs.

    Raises:
        CheckpointError: A run has no predictions, or they are on other pairs.
    """
    ours, theirs = ([load_predictions(RunFolder(run)) for run in runs] for runs in (first, second))
    try:
        difference = paired_difference(theirs, ours, resamples)
    except ValueError as error:
        names = ", ".join(map(str, (*first, *second)))
        raise CheckpointError(f"{names}: {error}") from error
    return score_intervals(ours, resamples), score_intervals(theirs, resamples), difference


def print_comparison(first: Sequence[Path], second: Sequence[Path], resamples: int = 1000) -> None:
    """Print scores, differences and their 95 % intervals; a star marks intervals without zero."""
    one, two, difference = compare(first, second, resamples)
    table = Table(
        title="Spearman x 100 with 95 % intervals over test pairs; * the interval has no zero",
        caption="Other seeds may differ more than other pairs: compare several runs of each.",
    )
    for heading in ("", _name(first), _name(second), "difference"):
        table.add_column(heading, justify="right" if heading else "left")
    for task, interval in difference.items():
        mark = " *" if interval.low > 0 or interval.high < 0 else "  "
        table.add_row(task, _plain(one[task]), _plain(two[task]), f"{interval}{mark}")
    Console(width=None if Console().is_terminal else 120).print(table)


def _name(runs: Sequence[Path]) -> str:
    return runs[0].name if len(runs) == 1 else f"{runs[0].name}, ... ({len(runs)} runs)"


def _plain(interval: Interval) -> str:
    return f"{interval.estimate:.2f} [{interval.low:.2f}, {interval.high:.2f}]"

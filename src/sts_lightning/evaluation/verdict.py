"""The verdict on a run: better than the untuned model, worse, or no difference found."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from sts_lightning.core.errors import CheckpointError, counted
from sts_lightning.core.files import as_type
from sts_lightning.evaluation.statistics import Interval, paired_difference
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.predictions import SELECTS, OfTask, constant, load_dev

log = logging.getLogger(__name__)

RESAMPLES = 10_000
"""Bootstrap resamples of queries: the bounds decide the word, so they have to be steady."""


class Verdict(TypedDict):
    """What a run gained, times 100, with the bounds of the paired bootstrap interval.

    Attributes:
        verdict: The word.
        score: Name of the score.
        before: Score of the first model.
        after: Score of the second one.
        difference: Of the second one from the first.
        low: Lower bound of the difference.
        high: Upper bound of it.
        units: Number of pairs, or queries, in words.
    """

    verdict: str
    score: str
    before: float
    after: float
    difference: float
    low: float
    high: float
    units: str


def verdict_of(run: RunFolder, best_step: int) -> Verdict | None:
    """Return the verdict on the selected weights of a run beside those that it started from.

    Both are measured in the precision of training. None where they were not stored, as by an earlier version.

    Args:
        run: Run folder.
        best_step: Step of the selected weights.
    """
    try:
        found = load_dev(run)
    except CheckpointError as error:  # the results are worth more
        log.warning("WARNING: no verdict: %s", error)
        return None
    if not {"untuned", "selected"} <= found.keys() or found["selected"][0] != best_step:
        return None
    return compare_found(found["untuned"][1], found["selected"][1])


def stored_verdict(run: RunFolder) -> Verdict:
    """Return the verdict that a run ended in.

    Raises:
        CheckpointError: It has none.
    """
    try:
        found: Verdict = as_type(run.metrics().details.get("verdict"), Verdict)
    except ValueError as error:
        raise CheckpointError(
            f"{run.name} has no verdict on its dev data beside the untuned model.",
            hint="Name another run to compare it to: --to RUN.",
        ) from error
    return found


def compare_found(before: OfTask, after: OfTask, units: str = "held-out") -> Verdict:
    """Compare what two models give on the same pairs, or queries.

    Args:
        before: Cosines and gold scores of the first one, or scores of its queries.
        after: Those of the second one.
        units: What the pairs, or queries, are.
    """
    ranked = isinstance(before, dict)
    size = len(before[SELECTS]) if isinstance(before, dict) else len(before[0])
    noun = "query" if size == 1 else "queries"
    return compare_tasks(
        {"dev": before},
        {"dev": after},
        "MRR@10" if ranked else "Spearman",
        f"{size:,} {units} {noun}" if ranked else counted(size, f"{units} pair"),
        RESAMPLES if ranked else RESAMPLES // 10,  # ranks of pairs in a resample take time
    )


def compare_tasks(
    before: Mapping[str, OfTask],
    after: Mapping[str, OfTask],
    score: str,
    units: str,
    resamples: int = RESAMPLES // 10,
) -> Verdict:
    """Compare what two models give on the same tasks, whose scores are averaged."""
    nothing = {name: constant(found) for name, found in before.items()}
    first, second = (paired_difference([each], [nothing], 1)["average"] for each in (before, after))
    return verdict_on(first, second, paired_difference([after], [before], resamples)["average"], score, units)


def verdict_on(first: Interval, second: Interval, gap: Interval, score: str, units: str) -> Verdict:
    """Return the verdict on a second model, whose score differs by ``gap`` from that of the first."""
    return {
        "verdict": "better" if gap.low > 0 else "worse" if gap.high < 0 else "no difference found",
        "score": score,
        "before": first.estimate,
        "after": second.estimate,
        "difference": gap.estimate,
        "low": gap.low,
        "high": gap.high,
        "units": units,
    }


def in_words(verdict: Verdict) -> str:
    """Return the verdict as a line."""
    gap = "{difference:+.1f} [{low:+.1f}, {high:+.1f}]"
    return f"{{verdict}}: {{score}} {{before:.1f}} -> {{after:.1f}}, {gap} on {{units}}".format(**verdict)

"""The highest correlation that a scorer with two values could reach."""

from __future__ import annotations

import click
import numpy as np
import pandas as pd
from scipy import stats

from sts_lightning.cli.options import DATA_ROOT
from sts_lightning.core.console import print_scores
from sts_lightning.data.readers.sts_sets import load_sts_tasks
from sts_lightning.data.table import gold_of


def ceiling(gold: np.ndarray) -> float:
    r"""Compute the highest Spearman correlation, times 100, of a scorer with two values with gold scores.

    Spearman's correlation is Pearson's of mid-ranks, as in scipy and SentEval. The best scorer follows the
    order of the gold scores and switches values where it is best, even between equal gold scores. Without
    gold ties and with equal halves it is :math:`\sqrt{3/4}` in the limit.

    Args:
        gold: Scores, (N,).

    Raises:
        ValueError: All scores are equal.
    """
    _check_scores(gold)
    ranks = np.sort(stats.rankdata(gold))
    ranks -= ranks.mean()
    below = np.arange(1, len(ranks))
    above = len(ranks) - below
    # The mid-ranks of a binary score are N/2 apart, whatever its class sizes.
    correlations = -ranks.cumsum()[:-1] / (np.sqrt(above * below / len(ranks)) * np.linalg.norm(ranks))
    return 100 * float(correlations.max())


def _check_scores(gold: np.ndarray) -> None:
    if len(gold) < 2 or np.ptp(gold) == 0:
        raise ValueError("all gold scores are equal; nothing correlates with them.")


def papers_ceiling(gold: np.ndarray) -> float:
    r"""Compute the papers' bound on a binary scorer, :math:`1 - 6 \sum d^2 / (N (N^2 - 1))`, times 100.

    See Pcc-tuning, Sec. 2.3. The formula holds without ties only, and a binary score is nothing but ties: it
    gives 7/8 for two equal halves in the limit, above the correlation that is reported.

    Args:
        gold: Scores, (N,).

    Raises:
        ValueError: All scores are equal.
    """
    _check_scores(gold)
    ranks = np.sort(stats.rankdata(gold))
    size = len(ranks)
    below = np.arange(1, size)
    total, squares = np.cumsum(ranks), np.cumsum(ranks**2)
    low, high = (below + 1) / 2, (below + size + 1) / 2  # mid-ranks of the two values
    distance = squares[:-1] - 2 * low * total[:-1] + below * low**2
    distance += squares[-1] - squares[:-1] - 2 * high * (total[-1] - total[:-1]) + (size - below) * high**2
    values = 1 - 6 * distance / (size * (size**2 - 1))
    return 100 * float(values.max())


@click.command("ceiling")
@DATA_ROOT
def ceiling_command(data_root: str) -> None:
    """Print the best Spearman of a scorer of two values on the seven test sets."""
    rows = {}
    for task in load_sts_tasks(data_root):
        gold = gold_of(task.subsets.values())
        rows[task.name] = {"papers' formula": papers_ceiling(gold), "ceiling": ceiling(gold)}
    means = pd.DataFrame(rows).mean(axis=1).to_dict()
    print_scores("Best Spearman x 100 of a scorer of two values", {**rows, "average": means})

"""`sts-lightning ceiling`: the best scores that a scorer of two values could reach."""

from __future__ import annotations

import click
import pandas as pd

from sts_lightning.cli.options import DATA_ROOT
from sts_lightning.core.console import print_scores
from sts_lightning.data.readers.sts_sets import load_sts_tasks
from sts_lightning.data.table import gold_of
from sts_lightning.papers.ceiling import ceiling, papers_ceiling


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

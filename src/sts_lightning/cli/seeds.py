"""Mean and spread over seeds: `python -m sts_lightning.cli.seeds RUN RUN [RUN ...]`."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from sts_lightning.errors import UserError
from sts_lightning.evaluation.report import print_scores
from sts_lightning.runs.folder import RunFolder


def summarise(rows: Sequence[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Mean and sample standard deviation of each score; at least two runs."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return {
        "mean": {name: statistics.mean(values) for name, values in columns.items()},
        "std": {name: statistics.stdev(values) for name, values in columns.items()},
    }


def main(folders: Sequence[str]) -> None:
    """Print the scores of runs, their mean and their standard deviation."""
    runs = [Path(folder) for folder in folders if Path(folder).is_dir()]
    if len(runs) < 2:
        raise UserError("name at least two run folders.")
    rows = {run.name: RunFolder(run).metrics().scores for run in runs}
    if len({tuple(row) for row in rows.values()}) > 1:
        raise UserError("the runs were reported on different tasks.")
    print_scores("Spearman x 100 by run", rows | summarise(list(rows.values())))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"error: {error}")

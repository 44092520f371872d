"""Mean and spread over seeds: `python -m sts_lightning.evaluation.seeds RUN RUN [RUN ...]`."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from sts_lightning.errors import CheckpointError, UserError
from sts_lightning.evaluation.report import print_scores


def read_scores(run: Path) -> dict[str, float]:
    """Dev and test Spearman of a finished run, as far as it has them.

    Raises:
        CheckpointError: The run has no readable metrics.json.
    """
    path = run / "metrics.json"
    try:
        metrics = json.loads(path.read_text(encoding="utf-8"))
        row = {"dev": float(metrics["dev"]["spearman"])} if "dev" in metrics else {}
        if metrics["test"] is not None:
            row |= {name: float(task["spearman"]) for name, task in metrics["test"]["tasks"].items()}
            row["average"] = float(metrics["test"]["average"])
    except FileNotFoundError as error:
        raise CheckpointError(f"{run} has no metrics.json: it is not a finished run.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is broken ({type(error).__name__}: {error}).") from error
    return row


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
    rows = {run.name: read_scores(run) for run in runs}
    if len({tuple(row) for row in rows.values()}) > 1:
        raise UserError("the runs were reported on different tasks.")
    print_scores("Spearman x 100 by run", rows | summarise(list(rows.values())))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"error: {error}")

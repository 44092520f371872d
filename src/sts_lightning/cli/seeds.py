"""`sts-lightning seeds`: mean and standard deviation of the scores of several runs."""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from sts_lightning.cli.arguments import Commands
from sts_lightning.console import print_scores
from sts_lightning.errors import UserError


def add_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the program."""
    parser = commands.add_parser("seeds", help="scores of several runs, their mean and standard deviation")
    parser.add_argument("runs", metavar="RUN", type=Path, nargs="+", help="run folders; files are ignored")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the scores of runs, their mean and their standard deviation."""
    from sts_lightning.runs.folder import RunFolder  # --help does not wait for it

    runs = [folder for folder in options.runs if folder.is_dir()]
    if len(runs) < 2:
        raise UserError("name at least two run folders.")
    rows = {folder.name: RunFolder(folder).last_stage().metrics().scores for folder in runs}
    for name, row in rows.items():
        undefined = [task for task, score in row.items() if not math.isfinite(score)]
        if undefined:
            raise UserError(f"{name}: its score of {undefined[0]} is not a finite number.")
    if len({tuple(row) for row in rows.values()}) > 1:
        tasks = "; ".join(f"{name}: {', '.join(row)}" for name, row in rows.items())
        raise UserError(f"the runs were reported on different tasks ({tasks}).")
    print_scores("Spearman x 100 by run", rows | summarise(list(rows.values())))


def summarise(rows: Sequence[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return mean and sample standard deviation of each score over at least two runs."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return {
        "mean": {name: statistics.mean(values) for name, values in columns.items()},
        "std": {name: statistics.stdev(values) for name, values in columns.items()},
    }

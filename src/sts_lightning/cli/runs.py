"""`sts-lightning runs`: list, compare, check and average finished runs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from sts_lightning.cli.options import FILE, RESAMPLES
from sts_lightning.core.console import print_scores
from sts_lightning.core.errors import UserError
from sts_lightning.core.files import check_output, last_name
from sts_lightning.runs.folder import RunFolder, check_distinct
from sts_lightning.runs.listing import (
    best_on_dev,
    find_runs,
    group_seeds,
    mean_scores,
    print_groups,
    sort_groups,
    write_csv,
)

if TYPE_CHECKING:
    from sts_lightning.evaluation.statistics import Interval

log = logging.getLogger(__name__)


@click.command("list")
@click.argument("folder", type=FILE, default="runs")
@click.option("--sort", metavar="COLUMN", help="A score, minutes or GB. Default: average, else dev.")
@click.option("--csv", "table", type=FILE, help="Write the table to a file.")
@click.option("--best", is_flag=True, help="Print the folder of the best run on dev alone, for scripts.")
def list_command(folder: Path, sort: str | None, table: Path | None, best: bool) -> None:
    """List the runs in FOLDER, by default those in runs, best first."""
    check_output("--csv", table)
    runs = find_runs(folder)
    if not runs:
        raise UserError(f"{folder} has no run.")
    scores = list(dict.fromkeys(name for run in runs if run.metrics for name in run.metrics.scores))
    scores.sort(key=lambda name: name not in ("dev", "average"))
    groups = sort_groups(group_seeds(runs), sort, scores)
    if table is not None:
        write_csv(table, groups, scores)
    if best:
        log.info("%s", best_on_dev(runs).folder.path)
        return
    print_groups(groups, scores, folder)
    for run in runs:
        if run.problem:
            log.warning("WARNING: %s", run.problem)


@click.command("compare")
@click.argument("runs", type=FILE, nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--to",
    "others",
    type=FILE,
    multiple=True,
    metavar="RUN",
    help="A run folder of the other system; may be repeated. Default: the untuned model of each RUN.",
)
@RESAMPLES
def compare_command(runs: Sequence[Path], others: Sequence[Path], resamples: int) -> None:
    """Print the scores of RUNs, those of the other system, and the differences, with 95 % intervals.

    The last line says whether the other system is better. Runs without a test report are compared on their
    dev data.
    """
    from sts_lightning.evaluation.statistics import compare  # takes longer than the other imports together
    from sts_lightning.evaluation.verdict import in_words, stored_verdict, verdict_on

    check_distinct(runs)
    check_distinct(others, "--to")
    if not others:
        for run in runs:
            log.info("%s: %s", last_name(run), in_words(stored_verdict(RunFolder(run))))
        return
    first, second, difference, score, units = compare(runs, others, resamples)
    table = Table(
        title=f"{score} x 100 with 95 % intervals over {units}; *: the interval excludes zero",
        caption="Seeds may vary more than test pairs: compare several runs of each system.",
    )
    for heading in ("", _name(runs), _name(others), "difference"):
        table.add_column(heading, justify="right" if heading else "left")
    for task, interval in difference.items():
        mark = " *" if interval.low > 0 or interval.high < 0 else "  "
        table.add_row(task, _unsigned(first[task]), _unsigned(second[task]), f"{interval}{mark}")
    width = None if Console().is_terminal else 120
    Console(width=width, markup=False, emoji=False).print(table)  # names may contain brackets
    name = "average"
    log.info("%s", in_words(verdict_on(first[name], second[name], difference[name], score, units)))


def _name(runs: Sequence[Path]) -> str:
    first = last_name(runs[0])
    return first if len(runs) == 1 else f"{first}, ... ({len(runs)} runs)"


def _unsigned(interval: Interval) -> str:
    return f"{interval.estimate:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


@click.command("check")
@click.argument("run", type=FILE)
def check_command(run: Path) -> None:
    """Check that RUN is whole, fits its model and has the scores of its predictions.

    It is the folder of a run or an evaluation.
    """
    from sts_lightning.workflows.verify import verify  # loads torch

    for name, state in verify(RunFolder(run)):
        log.info("%s: %s", name, state)


@click.command("mean")
@click.argument("runs", type=FILE, nargs=-1, required=True, metavar="RUN...")
def mean_command(runs: Sequence[Path]) -> None:
    """Print the scores of run folders, their mean and their standard deviation; files are left out."""
    print_scores("Scores x 100 by run", mean_scores([folder for folder in runs if not folder.is_file()]))

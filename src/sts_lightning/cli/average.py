"""`sts-lightning average`: the average of the weights of runs, as a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from sts_lightning.cli.options import FILE, FRACTION
from sts_lightning.core.console import print_scores
from sts_lightning.core.files import check_new_folder
from sts_lightning.runs.folder import check_distinct
from sts_lightning.workflows.average import average_runs


@click.command("average")
@click.argument("runs", type=FILE, nargs=-1, required=True, metavar="RUN...")
@click.option("--to", type=FILE, metavar="FOLDER", required=True, help="Run folder to write; must not exist.")
@click.option(
    "--with-start",
    type=FRACTION,
    multiple=True,
    metavar="SHARE",
    help="Also try SHARE * average + (1 - SHARE) * start, and select by dev; may be given several times.",
)
def average_command(runs: Sequence[Path], to: Path, with_start: Sequence[float]) -> None:
    """Average the weights of runs of one model, and print the dev scores of what was tried."""
    check_distinct(runs)
    check_new_folder(to)
    scores = average_runs(runs, to, with_start)
    print_scores("Spearman x 100", {name: {"dev": dev} for name, dev in scores.items()})

"""`sts-lightning average`: the average of the weights of runs, as a run."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import click

from sts_lightning.cli.options import FILE, FRACTION, TRUST, TRUST_REMOTE_CODE
from sts_lightning.config.trust import Trust
from sts_lightning.console import print_scores
from sts_lightning.errors import ConfigError
from sts_lightning.files import check_new_folder
from sts_lightning.runs.distinct import check_distinct
from sts_lightning.workflows.soup import make_soup
from sts_lightning.workflows.soup_parents import read_parents

log = logging.getLogger(__name__)


@click.command("average")
@click.argument("runs", type=FILE, nargs=-1, required=True, metavar="RUN...")
@click.option("--to", type=FILE, metavar="FOLDER", required=True, help="Run folder to write; must not exist.")
@click.option(
    "--with-start",
    type=FRACTION,
    multiple=True,
    metavar="ALPHA",
    help="Also try ALPHA * average + (1 - ALPHA) * start, and select by dev; may be given several times.",
)
@TRUST
@TRUST_REMOTE_CODE
def average_command(
    runs: Sequence[Path],
    to: Path,
    with_start: Sequence[float],
    trust: Sequence[str],
    trust_remote_code: bool,
) -> None:
    """Average the weights of runs of one model, and print the dev scores of what was tried."""
    check_distinct(runs)
    if len(runs) < 2 and not with_start:
        raise ConfigError(
            "one run has no average.",
            key="runs",
            hint="Name two runs, or give --with-start for an average with what the run started from.",
        )
    check_new_folder(to)
    parents = read_parents(runs, Trust.of(trust, trust_remote_code))
    made = make_soup(parents, to, alphas=with_start)
    rows = {parent.run.name: {"dev": dev} for parent, dev in zip(parents, made.singles, strict=True)}
    rows |= {f"average, alpha {one.alpha:g}": {"dev": one.dev} for one in made.tried}
    print_scores("Spearman x 100", rows)
    log.info("%s: alpha %g, dev %.2f", to, made.best.alpha, made.best.dev)

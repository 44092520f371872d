"""`sts-lightning soup`: the average of the weights of runs, as a run."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from sts_lightning.cli.arguments import Commands, add_trust, fraction
from sts_lightning.errors import ConfigError

log = logging.getLogger(__name__)


def add_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the program."""
    parser = commands.add_parser(
        "soup", help="average the weights of runs of one model, or of a run and what it started from"
    )
    parser.add_argument("runs", metavar="RUN", type=Path, nargs="+", help="run folders")
    parser.add_argument(
        "--to", type=Path, metavar="FOLDER", required=True, help="run folder to write; must not exist"
    )
    parser.add_argument(
        "--greedy",
        action="store_true",
        help="take the runs by falling dev score, and keep each that does not lower that of the average",
    )
    parser.add_argument(
        "--with-start",
        type=fraction,
        nargs="+",
        default=[],
        metavar="ALPHA",
        help="also try ALPHA * average + (1 - ALPHA) * start, and select by dev score",
    )
    add_trust(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write the average and print the scores of what was tried."""
    from sts_lightning.runs.distinct import check_distinct  # --help does not wait for these

    check_distinct(options.runs)
    if len(options.runs) < 2 and not options.with_start:
        raise ConfigError(
            "one run has no average.",
            key="runs",
            hint="Name two runs, or give --with-start for an average with what the run started from.",
        )
    if options.greedy and len(options.runs) < 2:
        raise ConfigError("--greedy selects among runs, but there is one.", key="greedy")
    from sts_lightning.config.trust import Trust
    from sts_lightning.console import print_scores
    from sts_lightning.files import check_new_folder
    from sts_lightning.workflows.soup import make_soup
    from sts_lightning.workflows.soup_parents import read_parents

    check_new_folder(options.to)
    parents = read_parents(options.runs, Trust.of(options.trust, options.trust_remote_code))
    soup = make_soup(parents, options.to, options.greedy, options.with_start)
    rows = {parent.run.name: {"dev": dev} for parent, dev in zip(parents, soup.singles, strict=True)}
    for step, candidate in enumerate(soup.tried, 1):
        name = f"average {step}: runs {len(candidate.members)}, alpha {candidate.alpha:g}"
        rows[name] = {"dev": candidate.dev}
    print_scores("Spearman x 100", rows)
    best = soup.best
    log.info(
        "%s: %d of %d runs, alpha %g, dev %.2f",
        options.to,
        len(best.members),
        len(parents),
        best.alpha,
        best.dev,
    )

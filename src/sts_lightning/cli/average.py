"""`sts-lightning average`: the average of the weights of runs, as a run."""

from __future__ import annotations

import argparse
from pathlib import Path

from sts_lightning.cli.arguments import Commands, add_trust, fraction
from sts_lightning.errors import ConfigError


def add_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the program."""
    parser = commands.add_parser(
        "average", help="average the weights of runs of one model, or of a run and what it started from"
    )
    parser.add_argument("runs", metavar="RUN", type=Path, nargs="+", help="run folders")
    parser.add_argument(
        "--to", type=Path, metavar="FOLDER", required=True, help="run folder to write; must not exist"
    )
    parser.add_argument(
        "--with-start",
        type=fraction,
        nargs="+",
        default=[],
        metavar="SHARE",
        help="also try SHARE * average + (1 - SHARE) * start, and select by dev score",
    )
    add_trust(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write the average and print the dev scores of the runs and of what was tried."""
    from sts_lightning.runs.folder import check_distinct  # --help does not wait for these

    check_distinct(options.runs)
    if len(options.runs) < 2 and not options.with_start:
        raise ConfigError(
            "one run has no average.",
            key="runs",
            hint="Name two runs, or give --with-start for an average with what the run started from.",
        )
    from sts_lightning.config.trust import Trust
    from sts_lightning.console import print_scores
    from sts_lightning.files import check_new_folder
    from sts_lightning.workflows.averaging import average_runs

    check_new_folder(options.to)
    trust = Trust.of(options.trust, options.trust_remote_code)
    scores = average_runs(options.runs, options.to, options.with_start, trust)
    print_scores("Spearman x 100", {name: {"dev": dev} for name, dev in scores.items()})

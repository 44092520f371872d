"""`sts-lightning verify`: whether a run folder is whole, before anyone builds on it."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from sts_lightning.cli.arguments import Commands, add_trust
from sts_lightning.errors import CheckpointError

log = logging.getLogger(__name__)


def add_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the program."""
    parser = commands.add_parser(
        "verify",
        help="check that a run folder is whole, fits its model and has the scores of its predictions",
    )
    parser.add_argument("run_folder", metavar="RUN", type=Path, help="the folder of a run or an evaluation")
    add_trust(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print one line for each check.

    Raises:
        CheckpointError: A check has failed.
    """
    from sts_lightning.config.trust import Trust  # --help does not wait for these
    from sts_lightning.runs.folder import RunFolder
    from sts_lightning.workflows.verify import verify

    folder = RunFolder(options.run_folder)
    outcomes = []
    for check in verify(folder, Trust.of(options.trust, options.trust_remote_code)):
        log.info("%-12s %s: %s", check.outcome, check.name, check.text)
        outcomes.append(check.outcome)
    wrong = outcomes.count("wrong")
    if wrong:
        raise CheckpointError(f"{wrong} of {len(outcomes)} checks of {folder.name} have failed.")

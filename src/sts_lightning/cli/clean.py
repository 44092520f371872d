"""`sts-lightning clean`: free the disk of what finished runs no longer need."""

from __future__ import annotations

import argparse
import logging

from sts_lightning.cli.arguments import Commands, add_runs_folder
from sts_lightning.counted import counted
from sts_lightning.errors import CheckpointError, RunningElsewhereError, StorageError

log = logging.getLogger(__name__)

MB = 1e6


def add_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the program."""
    parser = commands.add_parser("clean", help="free the disk of what finished runs no longer need")
    add_runs_folder(parser)
    parser.add_argument(
        "--delete", action="store_true", help="do it; without this option, only list what would be freed"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """List finished runs with the state of their optimiser, or remove it; all weights stay."""
    from sts_lightning.runs.cleaning import Leftover, drop, find_leftovers  # --help does not wait for torch

    total = count = failed = 0
    for found in find_leftovers(options.folder):
        if not isinstance(found, Leftover):
            log.warning("WARNING: %s", found)
            continue
        freed = found.unneeded
        if options.delete:
            try:
                freed = drop(found)
            except (RunningElsewhereError, CheckpointError, OSError) as error:
                log.warning("WARNING: %s", error)
                failed += isinstance(error, OSError)
                continue
        log.info("%8.1f MB of %8.1f  %s", freed / MB, found.size / MB, found.run.name)
        total, count = total + freed, count + 1
    runs = counted(count, "run")
    if not count:
        log.info("Nothing to free in %s.", options.folder)
    elif options.delete:
        log.info("%.1f MB freed in %s.", total / MB, runs)
    else:
        log.info("%.1f MB in %s; add --delete to free them.", total / MB, runs)
    if failed:
        raise StorageError(f"{failed} of the runs could not be written (see above).")

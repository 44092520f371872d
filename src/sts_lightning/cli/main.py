"""Tools for data, finished runs, test sets and published tables."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Sequence
from importlib import import_module

from sts_lightning.batch_job import requeue
from sts_lightning.errors import InterruptedRunError, UserError
from sts_lightning.interrupts import listening, signal_name, stopping_signal
from sts_lightning.output import lasting_output

COMMANDS = (
    "calibrate",
    "ceiling",
    "clean",
    "compare",
    "data",
    "export",
    "figure",
    "leaks",
    "plan",
    "reproduce",
    "runs",
    "score",
    "search",
    "seeds",
    "verify",
)
"""Commands, each in a module of its name."""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser("sts-lightning", description=__doc__)
    parser.add_argument("--debug", action="store_true", help="show stack traces")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        import_module(f"sts_lightning.cli.{command}").add_parser(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; exit with one message and status 1 after a user's mistake, 128 + N after signal N."""
    options = make_parser().parse_args(arguments)
    with lasting_output(), listening():
        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
        try:
            options.run(options)
        except UserError as error:
            if options.debug:
                raise
            if error.exit_status == 1:
                sys.exit(f"error: {error}")
            print(error, file=sys.stderr)
            if isinstance(error, InterruptedRunError):
                _requeue(error.number)
            sys.exit(error.exit_status)
        except OSError as error:  # commands only touch files that the user named
            if options.debug:
                raise
            where = f"{error.filename2 or error.filename}: " if error.filename else ""
            sys.exit(f"error: {where}{error.strerror or error}.")
        except KeyboardInterrupt as error:
            number = stopping_signal(error) or signal.SIGINT
            print(f"stopped by {signal_name(number)}.", file=sys.stderr)
            _requeue(number)
            sys.exit(128 + number)


def _requeue(number: signal.Signals) -> None:
    message = requeue(number)
    if message is not None:
        print(message, file=sys.stderr)


if __name__ == "__main__":
    main()

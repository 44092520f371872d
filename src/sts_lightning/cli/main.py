"""Training, evaluation, and tools for data, finished runs, test sets and published tables."""

from __future__ import annotations

import argparse
import logging
import runpy
import signal
import sys
from collections.abc import Sequence
from importlib import import_module

from sts_lightning.batch_job import requeue
from sts_lightning.cli.cpu_defaults import set_cpu_defaults
from sts_lightning.entry_points import ENTRIES, Entry, script_of
from sts_lightning.errors import InterruptedRunError, UserError
from sts_lightning.interrupts import listening, signal_name, stopping_signal, unmasked
from sts_lightning.output import lasting_output

COMMANDS = (
    "audit",
    "calibrate",
    "ceiling",
    "clean",
    "compare",
    "data",
    "export",
    "figure",
    "heads",
    "leaks",
    "plan",
    "reproduce",
    "runs",
    "score",
    "search",
    "seeds",
    "soup",
    "verify",
)
"""Commands, each in a module of its name."""

HYDRA: dict[Entry, str] = {
    "train": "fine-tune a sentence encoder; `sts-lightning train --help` lists the settings",
    "eval": "evaluate a model or a run on the STS tasks; likewise",
}
"""Commands that Hydra runs: their arguments are overrides of the configuration and Hydra's own options."""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser("sts-lightning", description=__doc__)
    parser.add_argument("--debug", action="store_true", help="show stack traces")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for entry, text in HYDRA.items():
        commands.add_parser(entry, help=text)  # for the list: `main` hands these to Hydra
    for command in COMMANDS:
        import_module(f"sts_lightning.cli.{command}").add_parser(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; exit with one message and status 1 after a user's mistake, 128 + N after signal N."""
    set_cpu_defaults()
    given = sys.argv[1:] if arguments is None else list(arguments)
    entry = next((name for name in ENTRIES if given[:1] == [name] or given[:2] == ["--debug", name]), None)
    if entry is not None:
        _start(entry, given)
        return
    options = make_parser().parse_args(given)
    with lasting_output(), listening():
        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
        try:
            with unmasked():
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
        except (RuntimeError, MemoryError) as error:
            from sts_lightning.models.inference import is_out_of_memory, shortage  # torch is there by now

            if options.debug or not is_out_of_memory(error):
                raise
            sys.exit(f"error: {shortage(error)}")
        except KeyboardInterrupt as error:
            number = stopping_signal(error) or signal.SIGINT
            print(f"stopped by {signal_name(number)}.", file=sys.stderr)
            _requeue(number)
            sys.exit(128 + number)


def _start(entry: Entry, given: Sequence[str]) -> None:
    """Run the script of a Hydra command in this process, as ``python SCRIPT ...`` would.

    The script's name goes first in ``sys.argv``: processes of further devices and jobs of a sweep start it.
    """
    position = given.index(entry)  # 1 after --debug
    sys.argv = [str(script_of(entry)), *given[position + 1 :], *(["debug=true"] * position)]
    runpy.run_path(sys.argv[0], run_name="__main__")


def _requeue(number: signal.Signals) -> None:
    message = requeue(number)
    if message is not None:
        print(message, file=sys.stderr)


if __name__ == "__main__":
    main()

"""`sts-lightning`: what is done with finished runs."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from sts_lightning.errors import UserError


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; exit status 1 and one message for what the user can mend."""
    parser = argparse.ArgumentParser("sts-lightning", description=__doc__)
    parser.add_argument("--debug", action="store_true", help="show stack traces")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_export(commands)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    try:
        options.run_command(options)
    except UserError as error:
        if options.debug:
            raise
        sys.exit(f"error: {error}")


def _add_export(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "export", help="write a run as a peft adapter, a merged model or a sentence-transformers model"
    )
    parser.add_argument("run", type=Path, help="the run folder")
    parser.add_argument("folder", type=Path, help="where to write; must not exist")
    parser.add_argument(
        "--format",
        choices=["adapter", "merged", "sentence-transformers"],
        default="sentence-transformers",
        help="default: %(default)s",
    )
    parser.add_argument(
        "--base",
        choices=["trained", "original"],
        default="trained",
        help="what an adapter is merged into: the base as it was in training, its quantisation undone, or "
        "the original weights; default: %(default)s",
    )
    parser.set_defaults(run_command=_export)


def _export(options: argparse.Namespace) -> None:
    from sts_lightning.export import export  # torch is not needed for --help

    export(options.run, options.folder, options.format, options.base)
    logging.getLogger(__name__).info("%s: %s of %s", options.folder, options.format, options.run)


if __name__ == "__main__":
    main()

"""`sts-lightning export`: a run as a folder that other libraries read."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from sts_lightning.cli.arguments import Commands, add_trust


def add_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the program."""
    parser = commands.add_parser(
        "export", help="write a run as a peft adapter, a merged model or a sentence-transformers model"
    )
    parser.add_argument("run_folder", metavar="RUN", type=Path, help="the run folder")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="where to write; must not exist")
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
        help="weights that an adapter is merged into: the base as in training, dequantised, or the original "
        "weights; default: %(default)s",
    )
    add_trust(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from sts_lightning.export.export import export  # torch is not needed for --help

    source, folder = options.run_folder, options.folder
    export(source, folder, options.format, options.base, options.trust, options.trust_remote_code)
    logging.getLogger(__name__).info("%s: %s of %s", folder, options.format, source)

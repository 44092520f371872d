"""`sts-lightning score`: the similarity of each pair of a file."""

from __future__ import annotations

import argparse
import csv
import io
import logging
import sys
from pathlib import Path

from sts_lightning.cli.arguments import Commands, add_model, add_trust

log = logging.getLogger(__name__)


def add_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the program."""
    parser = commands.add_parser("score", help="the similarity of each pair of a file, by a run or any model")
    add_model(parser)
    parser.add_argument("file", metavar="PAIRS", type=Path, help="CSV, TSV or JSONL with two text columns")
    parser.add_argument(
        "--columns",
        nargs=2,
        metavar=("FIRST", "SECOND"),
        default=["sentence1", "sentence2"],
        help="names of the columns; default: sentence1 sentence2",
    )
    parser.add_argument("--to", type=Path, metavar="FILE", help="CSV to write; default: the terminal")
    add_trust(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write the sentences and the cosine of each pair as CSV."""
    from sts_lightning.data.files import read_text_pairs
    from sts_lightning.errors import UserError
    from sts_lightning.evaluation.similarity import score_pairs
    from sts_lightning.files import check_output, write_atomic
    from sts_lightning.workflows.evaluated_encoder import load_named

    if options.columns[0] == options.columns[1]:
        raise UserError(f"--columns: {options.columns[0]} is named twice.")
    check_output("--to", options.to, options.file)
    if options.to is None:
        _log_beside_output()
    pairs, _ = read_text_pairs(options.file, options.columns)
    firsts, seconds = zip(*pairs, strict=True)
    encoder = load_named(options.model, options.trust, options.trust_remote_code)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*options.columns, "cosine"])
    for pair, cosine in zip(pairs, score_pairs(encoder, firsts, seconds), strict=True):
        writer.writerow([*pair, f"{cosine:.6f}"])
    if options.to is None:
        print(text.getvalue(), end="")
    else:
        write_atomic(options.to, text.getvalue())
        log.info("%s: the cosines of %s pairs", options.to, f"{len(pairs):,}")


def _log_beside_output() -> None:
    """Send what loading says to standard error: standard output holds the CSV."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stdout:
            handler.setStream(sys.stderr)

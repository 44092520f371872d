"""`sts-lightning score`: the similarity of each pair of a file."""

from __future__ import annotations

import argparse
import csv
import io
import logging
from pathlib import Path

from sts_lightning.cli.arguments import Commands, add_trust

log = logging.getLogger(__name__)


def add_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the program."""
    parser = commands.add_parser(
        "score", help="the similarity of each pair of a file, by the encoder of a run"
    )
    parser.add_argument("run_folder", metavar="RUN", type=Path, help="the run folder")
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
    from sts_lightning.data.readers.row_values import sentence
    from sts_lightning.data.readers.text_files import read_records
    from sts_lightning.errors import UserError
    from sts_lightning.evaluation.similarity import score_pairs
    from sts_lightning.files import write_atomic
    from sts_lightning.models.loading import load

    if options.columns[0] == options.columns[1]:
        raise UserError(f"--columns: {options.columns[0]} is named twice.")
    pairs = [
        (sentence(first, options.file, line), sentence(second, options.file, line))
        for line, (first, second) in read_records(options.file, options.columns)
    ]
    first, second = zip(*pairs, strict=True)
    encoder = load(options.run_folder, options.trust, options.trust_remote_code)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*options.columns, "cosine"])
    for pair, cosine in zip(pairs, score_pairs(encoder, first, second), strict=True):
        writer.writerow([*pair, f"{cosine:.6f}"])
    if options.to is None:
        log.info("%s", text.getvalue().rstrip("\n"))
    else:
        write_atomic(options.to, text.getvalue())
        log.info("%s: the cosines of %s pairs", options.to, f"{len(pairs):,}")

"""`sts-lightning score`: the similarity of each pair of a file."""

from __future__ import annotations

import argparse
import csv
import io
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sts_lightning.cli.arguments import Commands, add_model, add_trust

if TYPE_CHECKING:
    from sts_lightning.runs.calibration_file import Calibration

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
    calibration = parser.add_mutually_exclusive_group()
    calibration.add_argument(
        "--calibration",
        type=Path,
        metavar="FILE",
        help="what `calibrate` wrote, for scores with intervals; default: that in the run folder, if any",
    )
    calibration.add_argument("--no-calibration", action="store_true", help="cosines alone")
    add_trust(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write the sentences and the cosine of each pair as CSV, and with a calibration score and interval."""
    from sts_lightning.data.files import read_text_pairs
    from sts_lightning.errors import UserError
    from sts_lightning.evaluation.calibration_fit import apply
    from sts_lightning.evaluation.similarity import score_pairs
    from sts_lightning.files import check_output, write_atomic
    from sts_lightning.workflows.evaluated_encoder import load_named

    if options.columns[0] == options.columns[1]:
        raise UserError(f"--columns: {options.columns[0]} is named twice.")
    check_output("--to", options.to, options.file, options.calibration)
    if options.to is None:
        _log_beside_output()
    calibration = _calibration(options)
    pairs, _ = read_text_pairs(options.file, options.columns)
    firsts, seconds = zip(*pairs, strict=True)
    encoder = load_named(options.model, options.trust, options.trust_remote_code)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    cosines = score_pairs(encoder, firsts, seconds)
    columns = {"cosine": cosines, **(apply(calibration, cosines)._asdict() if calibration else {})}
    writer.writerow([*options.columns, *columns])
    for pair, *numbers in zip(pairs, *columns.values(), strict=True):
        writer.writerow([*pair, *(f"{number:.6f}" for number in numbers)])
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


def _calibration(options: argparse.Namespace) -> Calibration | None:
    """Return the calibration that is asked for, or that of a run; None without either.

    Raises:
        CheckpointError: It is broken, or for another encoder.
    """
    from sts_lightning.runs.calibration_file import load_calibration
    from sts_lightning.runs.folder import RunFolder

    folder = RunFolder(options.model).last_stage()
    path = options.calibration
    if path is None and not options.no_calibration and folder.calibration_file.is_file():
        path = folder.calibration_file
    if path is None:
        return None
    found = load_calibration(path, folder)
    # Not logged: standard output holds the CSV.
    print(f"scores by {path}, intervals of coverage {found.coverage:g}", file=sys.stderr)
    return found

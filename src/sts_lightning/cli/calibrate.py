"""`sts-lightning calibrate`: cosines of a run on the scale of the user's scores, with intervals."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from sts_lightning.cli.arguments import Commands, add_trust, at_least, decimal, fraction

log = logging.getLogger(__name__)


def add_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the program."""
    parser = commands.add_parser(
        "calibrate", help="fit a run's cosines to the scores of a file of pairs, with intervals for `score`"
    )
    parser.add_argument("run_folder", metavar="RUN", type=Path, help="the run folder")
    parser.add_argument(
        "file", metavar="PAIRS", type=Path, help="CSV, TSV or JSONL; pairs that the run was not trained on"
    )
    parser.add_argument(
        "--columns",
        nargs=3,
        metavar=("FIRST", "SECOND", "SCORE"),
        default=["sentence1", "sentence2", "score"],
        help="names of the columns; default: sentence1 sentence2 score",
    )
    parser.add_argument(
        "--score-range",
        nargs=2,
        type=decimal,
        metavar=("LOW", "HIGH"),
        help="lowest and highest possible score, at which intervals end; default: no bounds",
    )
    parser.add_argument(
        "--coverage",
        type=fraction,
        default=0.9,
        help="probability that a pair's score lies in its interval; default: %(default)s",
    )
    parser.add_argument(
        "--seed", type=at_least(0), default=0, help="of the halves of the pairs; default: %(default)s"
    )
    parser.add_argument("--to", type=Path, metavar="FILE", help="JSON to write; default: in the run folder")
    add_trust(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Fit and store the calibration."""
    from sts_lightning.data.files import load_test_files
    from sts_lightning.data.pair_tables import gold_of, values_of
    from sts_lightning.data.readers.row_values import checked_range
    from sts_lightning.errors import ConfigError, DataError
    from sts_lightning.evaluation.calibration_fit import calibrate, needed_pairs
    from sts_lightning.evaluation.similarity import score_pairs
    from sts_lightning.files import check_output
    from sts_lightning.models.loading import load
    from sts_lightning.runs.calibration_file import fingerprint, save_calibration
    from sts_lightning.runs.folder import RunFolder

    check_output("--to", options.to, options.file)
    try:
        needed = needed_pairs(options.coverage)
        bounds = None if options.score_range is None else checked_range(options.score_range)
    except ValueError as error:
        name = str(error).partition(" ")[0].replace("_", "-")
        raise ConfigError(f"--{str(error).replace('_', '-', 1)}", key=name) from error
    folder = RunFolder(options.run_folder).last_stage()
    made_for = fingerprint(folder)
    [task] = load_test_files([str(options.file)], tuple(options.columns), bounds, "--columns")
    table = task.subsets["test"]
    if len(table) < needed:
        raise DataError(
            f"{len(table):,} pairs are too few for intervals of coverage {options.coverage:g}: {needed:,} "
            "are needed.",
            options.file,
            key="coverage",
            hint="Add pairs, or set a lower --coverage.",
        )
    encoder = load(options.run_folder, options.trust, options.trust_remote_code)
    cosines = score_pairs(encoder, values_of(table, "sentence1"), values_of(table, "sentence2"))
    made = calibrate(cosines, gold_of([table]), options.coverage, bounds, options.seed)
    path = options.to or folder.calibration_file
    save_calibration(path, made, made_for)
    log.info(
        "%s: a map fitted to %s pairs; intervals of +-%.3g for a coverage of %g, from %s other pairs",
        path,
        f"{made.fitted:,}",
        made.half_width,
        made.coverage,
        f"{made.held_out:,}",
    )

"""`sts-lightning ceiling`: best scores that a scorer with two values could reach."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sts_lightning.cli.arguments import Commands, add_file, reject_unused
from sts_lightning.console import print_scores
from sts_lightning.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np


def add_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the program."""
    parser = commands.add_parser(
        "ceiling", help="the best Spearman that a scorer of two values could reach on the test sets"
    )
    add_file(parser, "your own CSV, TSV or JSONL file; default: the seven test sets")
    parser.add_argument("--score", default="score", help="its column of gold scores; default: %(default)s")
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    if options.file is None:
        reject_unused(options, ("score",), "without a file")
    else:
        reject_unused(options, ("data_root",), "with a file")
    report_ceilings(read_golds(options.file, options.score, options.data_root))


def read_golds(path: Path | None, column: str, data_root: str) -> dict[str, np.ndarray]:
    """Read the gold scores of the seven test sets, or of a file.

    Args:
        path: CSV, TSV or JSONL file, or None for the test sets.
        column: Column of scores in the file.
        data_root: Data root in SentEval's layout.

    Raises:
        DataError: A file is missing or malformed.
    """
    import numpy as np  # here and below: --help of the program does not wait for these

    from sts_lightning.data.pair_tables import gold_of
    from sts_lightning.data.readers.row_values import number
    from sts_lightning.data.readers.senteval import load_sts_tasks
    from sts_lightning.data.readers.text_files import read_records

    if path is None:
        return {task.name: gold_of(task.subsets.values()) for task in load_sts_tasks(data_root)}
    rows = read_records(path, [column], [column], "--score")
    return {path.name: np.array([number(text, path, line) for line, (text,) in rows])}


def report_ceilings(golds: Mapping[str, np.ndarray]) -> None:
    """Print the ceilings of each set.

    Raises:
        ConfigError: A set has too few pairs, or all its gold scores are equal.
    """
    import numpy as np

    from sts_lightning.evaluation.ceiling import ceiling, papers_ceiling

    rows = {}
    for name, gold in golds.items():
        try:
            rows[name] = {"papers' formula": papers_ceiling(gold).spearman, "ceiling": ceiling(gold).spearman}
        except ValueError as error:
            raise ConfigError(f"{name}: {error}") from error
    if len(rows) > 1:
        columns = next(iter(rows.values()))
        rows["average"] = {name: float(np.mean([row[name] for row in rows.values()])) for name in columns}
    print_scores("Best Spearman x 100 of a scorer with two values", rows)

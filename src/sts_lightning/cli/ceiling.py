"""`sts-lightning ceiling`: the best scores that a scorer of two values could reach."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from sts_lightning.cli.options import FILE, data_root
from sts_lightning.console import print_scores
from sts_lightning.data.pair_tables import gold_of
from sts_lightning.data.readers.row_values import number
from sts_lightning.data.readers.senteval import load_sts_tasks
from sts_lightning.data.readers.text_files import read_records
from sts_lightning.errors import ConfigError
from sts_lightning.evaluation.ceiling import ceiling, papers_ceiling


@click.command("ceiling")
@click.argument("file", type=FILE, required=False)
@data_root()
@click.option("--score", default="score", show_default=True, help="With FILE: its column of gold scores.")
def ceiling_command(file: Path | None, data_root: str, score: str) -> None:
    """Print the best Spearman of a scorer of two values, on FILE or the seven test sets."""
    rows = {}
    for name, gold in read_golds(file, score, data_root).items():
        try:
            rows[name] = {"papers' formula": papers_ceiling(gold).spearman, "ceiling": ceiling(gold).spearman}
        except ValueError as error:
            raise ConfigError(f"{name}: {error}") from error
    if len(rows) > 1:
        columns = next(iter(rows.values()))
        rows["average"] = {name: float(np.mean([row[name] for row in rows.values()])) for name in columns}
    print_scores("Best Spearman x 100 of a scorer of two values", rows)


def read_golds(path: Path | None, column: str, data_root: str) -> dict[str, np.ndarray]:
    """Read the gold scores of the seven test sets, or of a file.

    Raises:
        DataError: A file is missing or malformed.
    """
    if path is None:
        return {task.name: gold_of(task.subsets.values()) for task in load_sts_tasks(data_root)}
    rows = read_records(path, [column], [column], "--score")
    return {path.name: np.array([number(text, path, line) for line, (text,) in rows])}

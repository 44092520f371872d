"""The ceilings of scorers with few distinct values on test sets: table and plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from sts_lightning.analysis.plots import plot_ceilings
from sts_lightning.data.readers.row_values import number
from sts_lightning.data.readers.senteval import load_sts_tasks
from sts_lightning.data.readers.text_files import read_records
from sts_lightning.errors import ConfigError
from sts_lightning.evaluation.ceiling import ceiling, papers_ceiling
from sts_lightning.evaluation.report import print_scores

PLOTTED = range(2, 21)


def read_golds(path: Path | None, column: str, data_root: str) -> dict[str, np.ndarray]:
    """Gold scores of the seven test sets, or of a file.

    Args:
        path: A CSV, TSV or JSONL file, or None for the test sets.
        column: The file's column of scores.
        data_root: Data root in SentEval's layout.

    Raises:
        DataError: A file is missing or malformed.
    """
    if path is None:
        return {
            task.name: np.concatenate([np.asarray(table["label"]) for table in task.subsets.values()])
            for task in load_sts_tasks(data_root)
        }
    rows = read_records(path, [column], numbers=[column])
    return {path.name: np.array([number(text, path, line) for line, (text,) in rows])}


def report_ceilings(golds: Mapping[str, np.ndarray], levels: Sequence[int], plot: Path | None = None) -> None:
    """Print the ceilings of each set, and draw them if asked to.

    Args:
        golds: Gold scores of each set.
        levels: Numbers of distinct values.
        plot: PNG file to write.

    Raises:
        ConfigError: A set has too few pairs, or no order.
    """
    rows, curves = {}, {}
    for name, gold in golds.items():
        try:
            rows[name] = {"papers' formula, 2 values": papers_ceiling(gold).spearman}
            rows[name] |= {f"{count} values": ceiling(gold, count).spearman for count in levels}
            if plot:
                curves[name] = [ceiling(gold, count).spearman for count in PLOTTED]
        except ValueError as error:
            raise ConfigError(f"{name}: {error}") from error
    if len(rows) > 1:
        columns = next(iter(rows.values()))
        rows["average"] = {name: float(np.mean([row[name] for row in rows.values()])) for name in columns}
    print_scores("The best Spearman x 100 of a scorer with so many distinct values", rows)
    if plot is not None:
        plot_ceilings(PLOTTED, curves, plot)

"""Terminal output: tables of scores, log files, and a quieter Lightning."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

LIGHTNING = ("lightning.pytorch", "lightning.fabric")
"""Names of Lightning's loggers."""


@contextlib.contextmanager
def log_to(path: Path) -> Iterator[None]:
    """Copy log lines to a file."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


@contextlib.contextmanager
def quiet_lightning() -> Iterator[None]:
    """Suppress Lightning's messages about hardware and its warnings that do not apply here."""
    levels = {logging.getLogger(name): logging.getLogger(name).level for name in LIGHTNING}
    for logger in levels:
        logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*does not have many workers.*")
            warnings.filterwarnings("ignore", ".*exists and is not empty.*")  # checkpoints of a resumed run
            warnings.filterwarnings("ignore", ".*LeafSpec.*")
            warnings.filterwarnings("ignore", ".*sync_dist=True.*")  # all processes log equal values
            warnings.filterwarnings(
                "ignore", r".*module\(s\) in eval mode.*"
            )  # a frozen encoder, a momentum copy
            yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


SHORT = 10
"""Characters of a heading that stays on one line, since its column holds numbers that are as long."""


def print_scores(title: str, rows: Mapping[str, Mapping[str, float]], console: Console | None = None) -> None:
    """Print a table with a row for each system and a column for each test set, scores to two decimals.

    A table with more columns than rows is transposed if that makes it narrower. In a terminal that is too
    narrow names are continued on the next line, elsewhere lines are as long as they have to be.

    Args:
        title: Title of the table.
        rows: Scores of each system by test set.
        console: Console to print to; standard output by default.
    """
    console = console or Console(markup=False, emoji=False)  # names may contain brackets
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    table = _table(title, columns, rows)
    if len(columns) > len(rows):
        turned = {
            column: {name: row[column] for name, row in rows.items() if column in row} for column in columns
        }
        table = min(_table(title, list(rows), turned), table, key=lambda either: _width(either, console))
    needed = _width(table, console)
    if needed > console.width and not console.is_terminal:
        console.width = needed
    elif needed > console.width:
        table.box, table.pad_edge, table.padding = None, False, (0, 1, 0, 0)
    console.print(table)


def _table(title: str, columns: Sequence[str], rows: Mapping[str, Mapping[str, float]]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("", overflow="fold")
    for column in columns:
        table.add_column(column, justify="right", overflow="fold", no_wrap=len(column) <= SHORT)
    for name, row in rows.items():
        table.add_row(name, *(_cell(row.get(column)) for column in columns))
    return table


def _width(table: Table, console: Console) -> int:
    """Return the width of a table none of whose cells is continued on the next line."""
    return Measurement.get(console, console.options.update(max_width=10_000), table).maximum


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"

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


WARNINGS = (
    ".*does not have many workers.*",  # tokenisation ahead of the step is a thread of ours
    ".*exists and is not empty.*",  # checkpoints of a resumed run
    ".*LeafSpec.*",  # a deprecation in torch that Lightning runs into
    ".*sync_dist=True.*",  # all processes log equal values
    r".*module\(s\) in eval mode.*",  # a frozen encoder, a momentum copy
    ".*overridden `on_before_batch_transfer` in `LightningModule`.*",  # the module knows the micro batches
)
"""Lightning's warnings that do not apply here."""


@contextlib.contextmanager
def quiet_lightning() -> Iterator[None]:
    """Suppress Lightning's messages about hardware, and `WARNINGS`."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = {logger: logger.level for logger in loggers}
    for logger in levels:
        logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            for message in WARNINGS:
                warnings.filterwarnings("ignore", message)
            yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


def print_scores(title: str, rows: Mapping[str, Mapping[str, float]], console: Console | None = None) -> None:
    """Print a table with a row for each system and a column for each test set, scores to two decimals.

    A table with more columns than rows is transposed if that makes it narrower. In a narrow terminal long
    names are wrapped. A file or a pipe gets lines as long as they have to be, since programs read it.

    Args:
        title: Title of the table.
        rows: Scores of each system by test set.
        console: Console to print to; standard output by default.
    """
    console = console or Console(markup=False, emoji=False)  # names may contain brackets
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    table = _table(title, columns, rows)
    if len(columns) > len(rows):
        transposed = {key: {name: row[key] for name, row in rows.items() if key in row} for key in columns}
        tables = _table(title, list(rows), transposed), table
        table = min(tables, key=lambda table: _width(table, console))
    needed = _width(table, console)
    if needed > console.width and not console.is_terminal:
        console.width = needed
    elif needed > console.width:
        table.box, table.pad_edge, table.padding = None, False, (0, 1, 0, 0)
    console.print(table)


def _table(title: str, columns: Sequence[str], rows: Mapping[str, Mapping[str, float]]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("", overflow="fold")
    for column in columns:  # a heading of up to 10 characters is as wide as the numbers below it
        table.add_column(column, justify="right", overflow="fold", no_wrap=len(column) <= 10)
    for name, row in rows.items():
        table.add_row(name, *(f"{row[column]:.2f}" if column in row else "-" for column in columns))
    return table


def _width(table: Table, console: Console) -> int:
    return Measurement.get(console, console.options.update(max_width=10_000), table).maximum


def print_line(text: str, style: str | None = None) -> None:
    """Print text as it stands, without markup and line breaks."""
    Console().print(text, style=style, markup=False, highlight=False, soft_wrap=True)

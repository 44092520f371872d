"""Tables of scores for the terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from sts_lightning.evaluation.sts import STSResult


def print_scores(title: str, rows: Mapping[str, Mapping[str, float]], console: Console | None = None) -> None:
    """Print a table with a row for each system and a column for each set, scores to two decimals.

    A wide table is turned, with the sets as rows, so that nothing is cut off in a terminal of 80 columns.
    """
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    console = console or Console()
    table = Table(title=title, title_justify="left")
    if len(columns) > len(rows):
        table.add_column("")
        for name in rows:
            table.add_column(name, justify="right")
        for column in columns:
            table.add_row(column, *(_cell(row.get(column)) for row in rows.values()))
    else:
        table.add_column("")
        for column in columns:
            table.add_column(column, justify="right")
        for name, row in rows.items():
            table.add_row(name, *(_cell(row.get(column)) for column in columns))
    console.print(table)


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def spearman_row(result: STSResult) -> dict[str, float]:
    """The Spearman score of each task, then the average where there is more than one."""
    row = {name: task["spearman"] for name, task in result["tasks"].items()}
    return {**row, "average": result["average"]} if len(row) > 1 else row

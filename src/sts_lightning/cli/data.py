"""`sts-lightning data`: list the published data that are here, and fetch the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from sts_lightning.cli.options import data_root
from sts_lightning.data.fetch.get import get, load_sources
from sts_lightning.data.fetch.hints import fetch_hint
from sts_lightning.data.fetch.manifest import read_manifest, take_stock
from sts_lightning.data.fetch.parts import select_parts


@click.command("status")
@data_root("--root")
def status_command(data_root: str) -> None:
    """List the published data, and what is here of each."""
    root = Path(data_root)
    stocks = take_stock(root, read_manifest(root))
    table = Table(title=f"Published data in {root}", title_justify="left")
    for column in ("part", "state", "rows", "published"):
        table.add_column(column, justify="right" if column in ("rows", "published") else "left")
    for stock in stocks:
        rows = "-" if stock.rows is None else f"{stock.rows:,}"
        table.add_row(stock.part.name, stock.state, rows, f"{stock.part.published:,}")
    console = Console()
    console.print(table)
    remarks = [f"{stock.part.name}: {stock.note}" for stock in stocks if stock.note]
    remarks += [
        f"{stock.part.name}: {fetch_hint(stock.part.name, root)}"
        for stock in stocks
        if stock.state != "complete"
    ]
    for line in remarks:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


@click.command("get")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@data_root("--root")
@click.option("--overwrite", is_flag=True, help="Replace files that are not the published ones.")
def get_command(names: Sequence[str], data_root: str, overwrite: bool) -> None:
    """Fetch published data, check counts and hashes, and install them in the data root.

    NAME is sts (STS12-16, STS-B, SICK), nli (triplets, pairs), wiki, transfer (transfer, probing) or all.
    docs/data.md has the sources.
    """
    get(select_parts(names), load_sources(), Path(data_root), overwrite)

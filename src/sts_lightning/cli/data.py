"""`sts-lightning data`: list the published data that are here, and fetch the others."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from sts_lightning.cli.arguments import Commands
from sts_lightning.data.fetch.hints import default_root, fetch_hint
from sts_lightning.errors import ConfigError

if TYPE_CHECKING:
    from sts_lightning.data.fetch.inventory import Stock


def add_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the program."""
    parser = commands.add_parser("data", help="list the published data that are here, or fetch them")
    _add_root(parser, default_root())
    parser.set_defaults(run=run_list)
    actions = parser.add_subparsers(metavar="get")
    getter = actions.add_parser(
        "get",
        help="fetch parts of the data: sts, nli, wiki, transfer or all",
        description="Fetch published data, check counts and hashes, and install them in the data root. "
        "docs/data.md has the sources.",
    )
    getter.add_argument(
        "names",
        nargs="+",
        metavar="NAME",
        help="sts (STS12-16, STS-B, SICK), nli (triplets, pairs), wiki, transfer (transfer, probing), all",
    )
    _add_root(getter, argparse.SUPPRESS)
    getter.add_argument(
        "--overwrite", action="store_true", help="replace files that are not the published ones"
    )
    getter.set_defaults(run=run_get)


def _add_root(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--root", default=default, metavar="FOLDER", help="data root; default: STS_DATA_ROOT, or data"
    )


def _root(text: str) -> Path:
    """Return the data root, which need not exist."""
    root = Path(text)
    there = next(path for path in (root, *root.absolute().parents) if path.exists())
    if not text.strip() or not there.is_dir():
        raise ConfigError(f"--root {text!r} is not a folder.", key="root")
    return root


def run_get(options: argparse.Namespace) -> None:
    """Fetch what is missing of the named parts."""
    # --help of the program does not wait for these, here and below.
    from sts_lightning.data.fetch.download import load_sources
    from sts_lightning.data.fetch.get import get
    from sts_lightning.data.fetch.parts import parts_of

    parts = parts_of(options.names)
    root = _root(options.root)
    get(parts, load_sources(), root, options.overwrite)


def run_list(options: argparse.Namespace) -> None:
    """List the parts of the published data, and what is there of each."""
    from rich.console import Console
    from rich.table import Table

    from sts_lightning.data.fetch.inventory import take_stock
    from sts_lightning.data.fetch.manifest import read_manifest

    root = _root(options.root)
    stocks = take_stock(root, read_manifest(root))
    table = Table(title=f"Published data in {root}", title_justify="left")
    for column in ("part", "state", "rows", "published"):
        table.add_column(column, justify="right" if column in ("rows", "published") else "left")
    for stock in stocks:
        found = "-" if stock.found is None else f"{stock.found:,}"
        table.add_row(stock.part.name, stock.state, found, f"{stock.published:,}")
    console = Console()
    console.print(table)
    for line in _remarks(stocks, root):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _remarks(stocks: list[Stock], root: Path) -> list[str]:
    lines = [f"{stock.part.name}: {stock.note}" for stock in stocks if stock.note]
    lines += [
        f"{stock.part.name}: {fetch_hint(stock.part.name, root)}"
        for stock in stocks
        if stock.state != "complete"
    ]
    return lines

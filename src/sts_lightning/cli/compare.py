"""`sts-lightning compare`: two runs, or two sets of runs, with paired bootstrap intervals."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from sts_lightning.cli.arguments import Commands, at_least
from sts_lightning.files import last_name

if TYPE_CHECKING:
    from sts_lightning.evaluation.bootstrap import Interval


def add_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the program."""
    parser = commands.add_parser(
        "compare", help="the difference of two runs, or of two sets of runs, with paired bootstrap intervals"
    )
    parser.add_argument("first", type=Path, nargs="+", help="run folders of one system")
    parser.add_argument("--to", type=Path, nargs="+", required=True, help="run folders of the other system")
    parser.add_argument("--resamples", type=at_least(1), default=1000, help="default: %(default)s")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print scores, differences and their 95 % intervals; a star marks intervals without zero."""
    from sts_lightning.evaluation.compare import compare  # --help does not wait for these
    from sts_lightning.runs.folder import check_distinct

    first, second = options.first, options.to
    check_distinct(first)
    check_distinct(second, "--to")
    one, two, difference = compare(first, second, options.resamples)
    table = Table(
        title="Spearman x 100 with 95 % intervals over test pairs; *: the interval excludes zero",
        caption="Seeds may vary more than test pairs: compare several runs of each system.",
    )
    for heading in ("", _name(first), _name(second), "difference"):
        table.add_column(heading, justify="right" if heading else "left")
    for task, interval in difference.items():
        mark = " *" if interval.low > 0 or interval.high < 0 else "  "
        table.add_row(task, _unsigned(one[task]), _unsigned(two[task]), f"{interval}{mark}")
    width = None if Console().is_terminal else 120
    Console(width=width, markup=False, emoji=False).print(table)  # names may contain brackets


def _name(runs: Sequence[Path]) -> str:
    first = last_name(runs[0])
    return first if len(runs) == 1 else f"{first}, ... ({len(runs)} runs)"


def _unsigned(interval: Interval) -> str:
    return f"{interval.estimate:.2f} [{interval.low:.2f}, {interval.high:.2f}]"

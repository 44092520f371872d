"""Options and types of arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from sts_lightning.data.fetch.hints import default_root

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

FILE = click.Path(path_type=Path)
"""A file or a folder, which the command itself checks."""


FRACTION = click.FloatRange(0, 1)
RESAMPLES = click.option(
    "--resamples",
    type=click.IntRange(1, 1_000_000),
    default=1000,
    show_default=True,
    help="Bootstrap resamples.",
)
TRUST_REMOTE_CODE = click.option(
    "--trust-remote-code", is_flag=True, help="Allow code that comes with the model."
)


def data_root(name: str = "--data-root") -> Decorator:
    """Return the option of the folder with the published data."""
    return click.option(
        name, "data_root", default=default_root, metavar="FOLDER", help="Default: STS_DATA_ROOT, or data."
    )


def columns(*names: str) -> Decorator:
    """Return the option of the columns of a file.

    Args:
        *names: Their usual names.
    """
    return click.option(
        "--columns",
        nargs=len(names),
        default=names,
        metavar=" ".join(name.upper() for name in names),
        help=f"Names of the columns. Default: {' '.join(names)}.",
    )

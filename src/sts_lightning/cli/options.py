"""Options and types of arguments that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

from sts_lightning.data.fetch import default_root

FILE = click.Path(path_type=Path)
"""A file or a folder, which the command itself checks."""

FRACTION = click.FloatRange(0, 1)

RESAMPLES = click.option(
    "--resamples", type=click.IntRange(1, 1_000_000), default=1000, help="Bootstrap resamples."
)

TRUST_REMOTE_CODE = click.option(
    "--trust-remote-code", is_flag=True, help="Allow code that comes with the model."
)

DEVICE = click.option(
    "--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", help="Where the model computes."
)
"""Its value ``cpu`` is the hint of the program where memory runs out."""

DATA_ROOT = click.option(
    "--data-root", "--root", default=default_root, show_default="STS_DATA_ROOT, or data", metavar="FOLDER"
)
"""The folder with the published data."""

SENTENCES = ("sentence1", "sentence2")
"""Usual names of the columns of pairs."""

COLUMNS = click.option(
    "--columns", nargs=2, default=SENTENCES, metavar="FIRST SECOND", help="Names of the columns."
)

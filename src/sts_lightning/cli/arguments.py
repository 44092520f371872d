"""Argument types and options that several commands share."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path

from sts_lightning.data.fetch.hints import default_root
from sts_lightning.data.readers.row_values import number
from sts_lightning.errors import ConfigError, DataError

Commands = argparse._SubParsersAction  # generic in stubs only


def add_file(parser: argparse.ArgumentParser, description: str) -> None:
    """Add an optional file, and the folder of the data that are read without it."""
    parser.add_argument("file", nargs="?", type=Path, help=description)
    parser.add_argument("--data-root", default=default_root(), help="default: STS_DATA_ROOT, or data")


def folder(text: str) -> Path:
    """Argument type of folders; a blank name is not the working directory."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the name of the folder is blank; the working directory is .")
    return Path(text)


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the encoder that is meant, as `workflows.evaluated_encoder.load_named` reads it."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a run folder, a folder of sentence-transformers or transformers, an id on the model hub, or a "
        "choice of model=, such as minilm",
    )


def add_runs_folder(parser: argparse.ArgumentParser) -> None:
    """Add the folder whose runs are meant, by default that of `train.py`."""
    parser.add_argument("folder", type=folder, nargs="?", default=Path("runs"), help="default: %(default)s")


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add the options by which a user allows what a run folder may not do by itself."""
    parser.add_argument(
        "--trust",
        nargs="+",
        default=[],
        metavar="NAME",
        help="further classes and settings that the run folder may use",
    )
    parser.add_argument(
        "--trust-remote-code", action="store_true", help="allow code that comes with the run's model"
    )


def reject_unused(
    options: argparse.Namespace, names: Sequence[str], reason: str, hint: str | None = None
) -> None:
    """Reject options that a command would ignore.

    Args:
        options: Options of the command, with its parser as ``parser``.
        names: Options without effect here.
        reason: Why, such as ``without --plan``.
        hint: What to do.

    Raises:
        ConfigError: One of them is given, with another value than its default.
    """
    default = options.parser.get_default
    for name in names:
        if getattr(options, name) != default(name):
            raise ConfigError(f"--{name.replace('_', '-')} has no effect {reason}.", key=name, hint=hint)


def at_least(least: int, most: int = 1_000_000) -> Callable[[str], int]:
    """Return an argument type that takes whole numbers from a minimum to a maximum."""

    def convert(text: str) -> int:
        if not text.isascii() or not text.isdecimal() or len(text) > 20 or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        if int(text) > most:
            raise argparse.ArgumentTypeError(f"{text} is more than {most:,}")
        return int(text)

    return convert


def decimal(text: str) -> float:
    """Argument type of finite decimal numbers, written as in a file of scores."""
    try:
        return number(text)
    except DataError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from error


def fraction(text: str) -> float:
    """Argument type of numbers from 0 to 1."""
    try:
        value = number(text)
    except DataError:
        value = math.nan
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return value

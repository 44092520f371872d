"""Numbers with their noun, checks of ranges, and text of users as Markdown."""

from __future__ import annotations

import re
from typing import Any, get_args


def counted(count: int, noun: str) -> str:
    """Return a number and its noun, whose plural ends with -s, as in ``1 run`` and ``1,200 runs``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def check_range(name: str, value: int, minimum: int, maximum: int) -> None:
    """Raise a `ValueError` that names the argument if its value is outside a range, bounds included."""
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {value}.")
    if value > maximum:
        raise ValueError(f"{name} must be at most {maximum:,}, got {value}.")


def check_choice(name: str, value: object, choices: Any) -> None:
    """Raise `ValueError` for an argument, by its name, that is none of the values of a `Literal`."""
    if value not in get_args(choices):
        raise ValueError(f"{name} must be one of {', '.join(get_args(choices))}, got {value!r}.")


def one_line(text: str) -> str:
    """Return text on one line in which Markdown finds no HTML and no links; `backticks` remain code."""
    line = " ".join(text.splitlines()).replace("\\", "\\\\")
    return re.sub(r"&(?=#?\w+;)", "&amp;", line).replace("<", "&lt;").replace("](", "]\\(")


def code(text: object, in_table: bool = False) -> str:
    """Return text as a code span, in which Markdown finds no markup; runs of white space become a space.

    Args:
        text: Text, or a value to write as text.
        in_table: Whether the span is for a cell of a table, where a vertical bar needs an escape.
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split()) or " "
    # A span ends at the first run of backticks as long as its fence; spaces keep the text's off the fence.
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    span = f"{fence}{pad}{line}{pad}{fence}"
    return span.replace("|", "\\|") if in_table else span

"""Text from elsewhere in Markdown: on one line, without markup of its own."""

from __future__ import annotations

import re


def one_line(text: str) -> str:
    """Return text on one line in which Markdown finds no HTML and no links; `backticks` remain code."""
    line = " ".join(text.splitlines()).replace("\\", "\\\\")
    return re.sub(r"&(?=#?\w+;)", "&amp;", line).replace("<", "&lt;").replace("](", "]\\(")


def code(text: object, in_table: bool = False) -> str:
    """Return text as a code span, in which Markdown finds no markup at all.

    Args:
        text: Text, or a value with one; runs of whitespace become one space.
        in_table: Whether the span is for a cell of a table, where a vertical bar needs an escape.
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split()) or " "
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    span = f"{fence}{pad}{line}{pad}{fence}"
    return span.replace("|", "\\|") if in_table else span

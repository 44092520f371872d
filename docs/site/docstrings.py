"""Docstrings for the site: equations, links and tables in reStructuredText become HTML and Markdown."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe
from latex2mathml.converter import convert

BLOCK = re.compile(r"^( *)\.\. math:: *(.*(?:\n\1 +\S.*)*)", re.MULTILINE)
INLINE = re.compile(r":math:`([^`]+)`")
LINK = re.compile(r"`([^`<]+?)\s*<(\S+?)>`_")
EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)  # a section of doctests is named Examples
TABLE = re.compile(r"^(=+ +=+)\n(.*?\n)\1$", re.MULTILINE | re.DOTALL)


class ToMarkdown(griffe.Extension):
    """Converts the docstring of each object."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Convert the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)


def to_markdown(text: str) -> str:
    """Return a docstring with equations as MathML, which browsers draw themselves, and links in Markdown."""
    text = BLOCK.sub(lambda found: textwrap.indent(display(found[2]), found[1]), text)
    text = INLINE.sub(lambda found: convert(found[1]), text)
    text = TABLE.sub(r"```text\n\2```", text)
    text = EXAMPLE.sub("Examples:", text)
    return LINK.sub(lambda found: f"[{' '.join(found[1].split())}]({found[2]})", text)


def display(equation: str) -> str:
    """Return an equation in a line of its own."""
    return f'\n<div class="math">{convert(" ".join(equation.split()), display="block")}</div>\n'

"""Parts of self-contained HTML pages about runs."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template


def page(title: str, parts: Iterable[str]) -> str:
    """Return a page that needs no other file.

    Args:
        title: Title and first heading, which is escaped.
        parts: HTML of its parts, in order; empty ones are left out.
    """
    template = Template((files("sts_lightning.runs") / "page.html").read_text(encoding="utf-8"))
    return template.substitute(title=escape(title), body="\n".join(part for part in parts if part))


def inline_image(path: Path) -> str:
    """Return an image element that contains a PNG file."""
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img loading="lazy" alt="{escape(path.stem)}" src="data:image/png;base64,{data}">'


def heading(text: str, word: bool, sortable: bool) -> str:
    """Return the heading of a column.

    Args:
        text: Its text, which is escaped.
        word: Whether the column has words, aligned left; otherwise it has numbers.
        sortable: Whether a click sorts the table, on a page with `sorting_script`.
    """
    inner = f'<button type="button">{escape(text)}</button>' if sortable else escape(text)
    return f"<th{' class=word' if word else ''}>{inner}</th>"


def text_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], words: int, sortable: bool = False
) -> str:
    """Return a table of texts, which are escaped.

    Args:
        header: Heading of each column.
        rows: Cells of each row.
        words: Number of leading columns with words, aligned left; the others have numbers.
        sortable: Whether a click on a heading sorts it, on a page with `sorting_script`.
    """

    def cells(texts: Sequence[str]) -> str:
        return "".join(
            f"<td{' class=word' if index < words else ''}>{escape(text)}</td>"
            for index, text in enumerate(texts)
        )

    head = (heading(text, index < words, sortable) for index, text in enumerate(header))
    return table(head, (f"<tr>{cells(row)}</tr>" for row in rows))


def table(headings: Iterable[str], rows: Iterable[str]) -> str:
    """Return a table that scrolls where the page is narrower.

    Args:
        headings: HTML of the headings of its columns.
        rows: HTML of its rows.
    """
    head, body = "".join(headings), "\n".join(rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def sorting_script() -> str:
    """Return the script element by which a click on a heading with a button sorts its table."""
    code = (files("sts_lightning.runs") / "sorting.js").read_text(encoding="utf-8")
    return f"<script>\n{code}</script>"

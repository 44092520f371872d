"""Parts of the self-contained HTML page of a run."""

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
        parts: HTML of its parts, in order.
    """
    template = Template((files("sts_lightning.runs") / "page.html").read_text(encoding="utf-8"))
    return template.substitute(title=escape(title), body="\n".join(parts))


def inline_image(path: Path) -> str:
    """Return an image element that contains a PNG file."""
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img loading="lazy" alt="{escape(path.stem)}" src="data:image/png;base64,{data}">'


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]], words: int) -> str:
    """Return a table of texts, which are escaped.

    Args:
        header: Heading of each column.
        rows: Cells of each row.
        words: Number of leading columns with words, aligned left; the others have numbers.
    """

    def line(tag: str, texts: Sequence[str]) -> str:
        cells = (
            f"<{tag}{' class=word' if index < words else ''}>{escape(text)}</{tag}>"
            for index, text in enumerate(texts)
        )
        return f"<tr>{''.join(cells)}</tr>"

    body = "\n".join(line("td", row) for row in rows)
    head = line("th", header)
    return f'<div class="wide"><table><thead>{head}</thead><tbody>\n{body}\n</tbody></table></div>'

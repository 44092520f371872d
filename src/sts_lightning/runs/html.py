"""Parts of self-contained HTML pages about runs."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path


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

    def cells(tag: str, texts: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=word' if index < words else ''}>{escape(text)}</{tag}>"
            for index, text in enumerate(texts)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>\n" for row in rows)
    head = f"<tr>{cells('th', header)}</tr>"
    return f'<div class="wide"><table><thead>{head}</thead><tbody>\n{body}</tbody></table></div>'

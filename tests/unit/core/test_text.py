"""Text in messages, and text from elsewhere against a parser of Markdown."""

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt

from sts_lightning.core.errors import counted
from sts_lightning.export.card import code

PARSER = MarkdownIt("commonmark").enable("table")

TEXTS = {
    "plain": "plain",
    "a `b` ``c``": "a `b` ``c``",
    "`": "`",
    "```x": "```x",
    "a|b \\| c\\": "a|b \\| c\\",
    "<script>x</script> &lt; [y](http://z) **b**": "<script>x</script> &lt; [y](http://z) **b**",
    "one\n\n# two\r\n\u2028three": "one # two three",
    "\x1b[31mred": "[31mred",
    "": "",
}


@pytest.mark.parametrize("text", list(TEXTS))
def test_code_is_read_as_the_text(text: str) -> None:
    paragraph = PARSER.parse(f"before {code(text)} after")
    children = [child for token in paragraph for child in token.children or []]
    assert [child.content.strip() for child in children if child.type == "code_inline"] == [TEXTS[text]]
    assert {child.type for child in children} == {"text", "code_inline"}
    assert len(paragraph) == 3


@pytest.mark.parametrize("text", list(TEXTS))
def test_code_stays_within_a_cell_of_a_table(text: str) -> None:
    tokens = PARSER.parse(f"| a | b |\n| --- | --- |\n| x | {code(text, in_table=True)} |\n")
    cells = [token for token in tokens if token.type == "inline"]
    assert len(cells) == 4
    assert [child.type for child in cells[-1].children or []] == ["code_inline"]
    assert (cells[-1].children or [])[0].content.strip() == TEXTS[text]


def test_singular_and_plural() -> None:
    assert [counted(n, "run") for n in (0, 1, 2, 1200)] == ["0 runs", "1 run", "2 runs", "1,200 runs"]

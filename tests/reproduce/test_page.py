"""A collected table as an HTML page."""

from __future__ import annotations

import statistics
from html.parser import HTMLParser

from sts_lightning.reproduce.collect import collect
from sts_lightning.reproduce.page import page
from sts_lightning.reproduce.plan import Table


class Checker(HTMLParser):
    """Finds whether tags are closed in order, and what a page asks from elsewhere."""

    void = frozenset({"meta", "img", "br", "link"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.sources += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page_needs_nothing_else(table: Table, scores: dict[str, list[float]]) -> None:
    text = page(collect(table, 50), "by hand")
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    assert len(checker.sources) == 6  # a plot of each finished run
    assert all(source.startswith("data:image/png;base64,") for source in checker.sources)
    assert "Toy &amp; &lt;others&gt;" in text
    assert "a|b_c: 3 of 3 runs" in text
    assert "absent: missing" in text


def test_best_scores_chart_and_seeds(table: Table, scores: dict[str, list[float]]) -> None:
    text = page(collect(table, 50))
    best = f"{statistics.mean(scores['a|b_c']):.2f}"
    assert text.count(f"<b>{best}</b>") == text.count("<b>") == 2  # STSB and the average of one row
    chart = text[text.index('<svg class="chart"') : text.index("</svg>")]
    assert chart.count('class="series"') == 2  # neither what is missing nor what is cited
    assert chart.count('class="one"') == 6
    assert f"<title>a|b_c: {best} (" in chart
    details = text[text.index("<details><summary>a|b_c") :]
    assert [f"<td>{score:.2f}</td>" in details for score in scores["a|b_c"]] == [True] * 3


def test_one_row_alone_is_not_the_best(table: Table) -> None:
    text = page(collect(table, 50))
    assert "<b>" not in text
    assert "<svg" not in text

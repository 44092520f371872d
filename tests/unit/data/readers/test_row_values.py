from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.core.errors import DataError
from sts_lightning.data.readers.row_values import BadRows, folded_sentence, score, sentence

PATH = Path("mine.tsv")


def test_white_space_is_folded_in_published_sentences_alone() -> None:
    text = "  A\u00a0dog\t barks . \n"
    assert sentence(text, PATH, 1) == text
    assert folded_sentence(text, PATH, 1) == "A dog barks ."


@pytest.mark.parametrize(
    ("text", "value"), [("4", 4.0), (" -0.5\t", -0.5), ("1e-3", 1e-3), (".5", 0.5), ("+2.", 2.0)]
)
def test_decimal_numbers(text: str, value: float) -> None:
    assert score(text, None, PATH, 1) == value


@pytest.mark.parametrize("text", ["", "nan", "inf", "1e999", "1_000", "٣", "0x1", "1,5"])
def test_everything_else_is_rejected(text: str) -> None:
    with pytest.raises(DataError, match=r"^mine\.tsv, line 7: "):
        score(text, None, PATH, 7)


def test_scores_lie_in_their_range() -> None:
    assert [score(text, (1.0, 5.0), PATH, 1) for text in ("1", "5")] == [1.0, 5.0]
    with pytest.raises(DataError, match=r"^mine\.tsv, line 3: .*\[1, 5\]"):
        score("0.9", (1.0, 5.0), PATH, 3)


def test_an_empty_sentence_is_rejected() -> None:
    with pytest.raises(DataError, match=r"^mine\.tsv, line 2: "):
        sentence(" \u3000", PATH, 2)


def test_errors_of_rows_are_reported_together() -> None:
    bad = BadRows()
    texts = ["1", "two", "3", *["x"] * 7]
    values = []
    for line, text in enumerate(texts, start=1):
        with bad:
            values.append(score(text, None, PATH, line))
    assert values == [1, 3]
    with pytest.raises(DataError) as caught:
        bad.check("Write digits.")
    assert (caught.value.path, caught.value.line) == (PATH, 2)
    assert str(caught.value) == (
        "mine.tsv, line 2: the score 'two' is not a number; and 7 more rows with errors: "
        "lines 4, 5, 6, 7, 8, ... Write digits."
    )
    BadRows().check()

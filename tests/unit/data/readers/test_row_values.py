from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.core.errors import DataError
from sts_lightning.data.readers.row_values import folded_sentence, parse_rows, score, sentence

PATH = Path("mine.tsv")


def test_white_space_is_folded_in_published_sentences_alone() -> None:
    text = "  A\u00a0dog\t barks . \n"
    assert sentence(text) == text
    assert folded_sentence(text) == "A dog barks ."


@pytest.mark.parametrize(
    ("text", "value"),
    [("4", 4.0), (" -0.5\t", -0.5), ("1e-3", 1e-3), (".5", 0.5), ("+2.", 2.0), ("1,5", 1.5), (",5", 0.5)],
)
def test_decimal_numbers(text: str, value: float) -> None:
    assert score(text) == value


@pytest.mark.parametrize("text", ["", "nan", "inf", "1e999", "1_000", "٣", "0x1", "1.234,5"])
def test_everything_else_is_rejected(text: str) -> None:
    with pytest.raises(DataError, match=r"^the score .* is not a number\.$"):
        score(text)


def test_scores_lie_in_their_range() -> None:
    assert [score(text, (1.0, 5.0)) for text in ("1", "5")] == [1.0, 5.0]
    with pytest.raises(DataError, match=r"outside \[1, 5\]"):
        score("0.9", (1.0, 5.0))


def test_an_empty_sentence_is_rejected() -> None:
    with pytest.raises(DataError, match=r"^a sentence is empty\.$"):
        sentence(" \u3000")


def test_errors_of_rows_are_reported_together() -> None:
    texts = ["1", "two", "3", *["x"] * 7]
    values = []
    with pytest.raises(DataError) as caught:
        values.extend(parse_rows(PATH, enumerate(texts, start=1), score, "Write digits."))
    assert (caught.value.path, caught.value.line) == (str(PATH), 2)
    assert str(caught.value) == (
        "mine.tsv, line 2: the score 'two' is not a number; and 7 more rows with errors: "
        "lines 4, 5, 6, 7, 8, ..."
    )
    assert list(parse_rows(PATH, enumerate(["1", "3"]), score)) == [(0, 1), (1, 3)]
    with pytest.raises(DataError, match=r"and 1 more row with errors: line 3\. Write digits\.$"):
        list(parse_rows(PATH, [(2, "x"), (3, "y")], score, "Write digits."))

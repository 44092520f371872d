from __future__ import annotations

import pytest

from sts_lightning.models.text.template import truncate_rows, truncate_texts
from sts_lightning.testing.tiny_bert import character_tokenizer


@pytest.mark.parametrize(
    ("length", "expected"),
    [(None, "a dog runs"), (3, "a do"), (4, "a dog"), (5, "a dog r"), (9, "a dog runs")],
)
def test_a_text_is_cut_after_its_first_tokens(length: int | None, expected: str) -> None:
    """A token is a letter."""
    assert truncate_texts(character_tokenizer(), ["a dog runs", "a"], length) == [expected, "a"]


def test_rows_keep_their_end() -> None:
    rows = [[1, 2, 3, 4, 5, 8, 9], [1, 2, 8, 9], [1, 2, 3, 8, 9]]
    assert truncate_rows(rows, 5, 2) == [[1, 2, 3, 8, 9], [1, 2, 8, 9], [1, 2, 3, 8, 9]]
    assert truncate_rows([[1, 2, 3]], 2, 0) == [[1, 2]]

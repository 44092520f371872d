from __future__ import annotations

import pytest

from sts_lightning.data.overlap import OverlapFilter, not_in, pair_key
from sts_lightning.data.tables import make_table

TESTS = [make_table({"sentence1": ["A dog.", "p", "\u00a7 \u2192"], "sentence2": ["A cat.", "q", "! ?"]})]


@pytest.mark.parametrize(
    ("how", "pair", "kept"),
    [
        ("none", ("A dog.", "A cat."), True),
        ("exact", ("A dog.", "A cat."), False),
        ("exact", ("A cat.", "A dog."), False),
        ("exact", ("a dog", "a cat"), True),
        ("exact", ("A\n\tdog. ", " A  cat."), False),
        ("normalized", ("\u00a7  \u2192", "!\n?"), False),
        ("normalized", ("A  CAT", "a dog!"), False),
        ("normalized", ("A dog.", "q"), True),  # sentences of two different test pairs
    ],
)
def test_filter(how: OverlapFilter, pair: tuple[str, str], kept: bool) -> None:
    assert not_in(TESTS, how)(*pair) == kept


def test_a_pair_of_equal_sentences_differs_from_other_pairs() -> None:
    assert pair_key("a", "a", "exact") == pair_key("a", "a", "exact")
    assert pair_key("a", "a", "exact") != pair_key("a", "b", "exact")

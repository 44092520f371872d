from __future__ import annotations

import pytest

from sts_lightning.data.overlap import OverlapFilter, in_tests, not_in, pair_key
from sts_lightning.data.table import Table

TESTS = [Table({"sentence1": ["A dog.", "p", "\u00a7 \u2192"], "sentence2": ["A cat.", "q", "! ?"]})]


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


@pytest.mark.parametrize(("how", "found"), [("none", []), ("exact", [0, 1, 2]), ("normalized", [0, 1, 2, 3])])
def test_a_triplet_has_the_pairs_of_its_anchor(how: OverlapFilter, found: list[int]) -> None:
    triplets = [
        ("A dog.", "A cat.", "x"),
        ("A cat.", "x", "A dog."),
        ("p", "q", "q"),
        ("a dog", "A CAT!", "x"),
        ("x", "A dog.", "A cat."),  # the positive with the hard negative
        ("A dog.", "x", "y"),  # a single sentence
    ]
    columns = dict(zip(("sentence1", "sentence2", "sentence3"), zip(*triplets, strict=True), strict=True))
    assert in_tests(Table(columns), TESTS, how).nonzero()[0].tolist() == found


def test_a_single_sentence_is_no_pair() -> None:
    assert not in_tests(Table({"sentence1": ["p", "q"]}), TESTS, "exact").any()

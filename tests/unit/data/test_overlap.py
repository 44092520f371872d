from __future__ import annotations

import pytest

from sts_lightning.data.overlap import OverlapFilter, PairIndex, pair_key, pairs_in_tables
from sts_lightning.data.table import NEGATIVES, Table

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
    assert (pairs_in_tables(TESTS, how).find(*pair) is None) == kept


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
    assert pairs_in_tables(TESTS, how).rows_in(Table(columns)).nonzero()[0].tolist() == found


def test_a_single_sentence_is_no_pair() -> None:
    assert not pairs_in_tables(TESTS, "exact").rows_in(Table({"sentence1": ["p", "q"]})).any()


def test_listed_negatives_are_pairs_with_the_anchor() -> None:
    columns = {"sentence1": ["p", "p", "x"], "sentence2": ["x", "x", "p"], NEGATIVES: [["y", "q"], [], ["q"]]}
    assert pairs_in_tables(TESTS, "exact").rows_in(Table(columns)).tolist() == [True, False, False]


def test_the_strongest_kind_is_found_and_of_equal_pairs_the_last() -> None:
    index = PairIndex([("b", "a"), ("a", "b"), ("a ", "b"), ("A", "c")], ("exact", "swapped", "normalized"))
    assert index.find("a", " b") == ("exact", ("a ", "b"))
    assert index.find("c", "A") == ("swapped", ("A", "c"))
    assert index.find("c!", "a") == ("normalized", ("A", "c"))
    assert index.find("b", "c") is None

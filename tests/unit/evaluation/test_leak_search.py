from __future__ import annotations

import unicodedata

import numpy as np
import pytest

from sts_lightning.data.table import Table
from sts_lightning.evaluation.leaks import Leak, find_leaks

TEST_PAIRS = [
    ("A man is playing a large flute.", "A man plays the flute."),
    ("Two dogs run through tall grass.", "A cat sleeps on the red sofa."),
]

TESTS = {"one": [Table({"sentence1": [a for a, _ in TEST_PAIRS], "sentence2": [b for _, b in TEST_PAIRS]})]}

FLUTE, DOGS = TEST_PAIRS


@pytest.mark.parametrize(
    ("pair", "kind"),
    [
        (FLUTE, "exact"),
        (FLUTE[::-1], "swapped"),
        ((" A man\nis playing a large flute.", "A man  plays the flute."), "exact"),
        (("a man is playing a large flute", "A MAN plays the flute!"), "normalized"),
        (("A man plays the flute", "A man is playing a large flute"), "normalized"),
        (("Two dogs run through the tall grass.", "A cat sleeps on the red sofa."), "near"),
        (("The cat sleeps on the red sofa.", "Two dogs run through tall grass."), "near"),
        (("Two dogs run through tall grass.", "A man plays the flute."), None),  # of two different test pairs
        (("Two dogs run.", "A cat sleeps."), None),
    ],
)
def test_kinds(pair: tuple[str, str], kind: str | None) -> None:
    found = find_leaks([("Something", "else"), pair], TESTS, near=0.7)
    assert [leak.kind for leak in found] == ([] if kind is None else [kind])
    assert all(leak.row == 1 and leak.task == "one" for leak in found)


def test_one_leak_for_each_test_set_and_pair() -> None:
    tests = {**TESTS, "other": TESTS["one"]}
    assert find_leaks([FLUTE], tests, near=None) == [
        Leak(0, "one", "exact", FLUTE),
        Leak(0, "other", "exact", FLUTE),
    ]


def test_near_may_be_left_out() -> None:
    pair = ("Two dogs run through the tall grass.", "A cat sleeps on the red sofa.")
    assert find_leaks([pair], TESTS, near=None) == []
    with pytest.raises(ValueError, match=r"near must lie in \(0, 1\]"):
        find_leaks([pair], TESTS, near=1.5)


@pytest.mark.parametrize("near", [0.55, 0.7, 0.8, 0.9, 1.0])
def test_no_near_pair_is_missed(near: float) -> None:
    rng = np.random.default_rng(0)

    def edited(text: str) -> str:
        letters = list(text)
        for place in rng.choice(len(letters), rng.integers(0, 5), replace=False):
            letters[place] = "abcde "[rng.integers(6)]
        return "".join(letters)

    train = [
        ("".join(rng.choice(list("abcde "), 60)), "".join(rng.choice(list("abcde "), 25))) for _ in range(60)
    ]
    pairs = [(edited(first), edited(second))[:: rng.choice([1, -1])] for first, second in train]
    table = Table({"sentence1": [a for a, _ in pairs], "sentence2": [b for _, b in pairs]})

    def alike(one: str, other: str) -> bool:
        one, other = (" ".join(text.split()) for text in (one, other))
        a, b = ({text[i : i + 4] for i in range(max(1, len(text) - 3))} for text in (one, other))
        return len(a & b) >= near * len(a | b)

    expected = [
        row
        for row, (a, b) in enumerate(train)
        if any((alike(a, c) and alike(b, d)) or (alike(a, d) and alike(b, c)) for c, d in pairs)
    ]
    assert [leak.row for leak in find_leaks(train, {"t": [table]}, near)] == expected
    assert 3 < len(expected) < 60 or near == 1.0


@pytest.mark.parametrize(
    ("pair", "kind"),
    [
        ((unicodedata.normalize("NFD", "Le café est fermé"), "ＡＢＣ"), "normalized"),  # noqa: RUF001
        (("वह का कताब", "abc"), None),  # other vowel signs
        (("😀", "👍"), None),
    ],
)
def test_other_scripts(pair: tuple[str, str], kind: str | None) -> None:
    tests = [("Le café est fermé!", "abc"), ("वह की किताब", "abc"), ("?", "!")]
    table = Table({"sentence1": [a for a, _ in tests], "sentence2": [b for _, b in tests]})
    assert [leak.kind for leak in find_leaks([pair], {"t": [table]})] == ([] if kind is None else [kind])

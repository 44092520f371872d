from __future__ import annotations

import pytest
from datasets import Dataset

from sts_lightning.data.leak_search import KINDS, Leak, find_leaks
from sts_lightning.data.readers.senteval import load_sickr, load_sts_tasks, load_stsb

TEST_PAIRS = [
    ("A man is playing a large flute.", "A man plays the flute."),
    ("Two dogs run through tall grass.", "A cat sleeps on the red sofa."),
]
TESTS = {
    "one": [
        Dataset.from_dict({"sentence1": [a for a, _ in TEST_PAIRS], "sentence2": [b for _, b in TEST_PAIRS]})
    ]
}
FLUTE, DOGS = TEST_PAIRS


@pytest.mark.parametrize(
    ("pair", "kind"),
    [
        (FLUTE, "exact"),
        (FLUTE[::-1], "swapped"),
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


@pytest.mark.slow
def test_the_papers_filter(data_root: str) -> None:
    """The counts of STS-B and SICK-R train: 10,249 - 4,851 = 5,398 pairs, and 80 fewer when normalised."""
    tests = {task.name: list(task.subsets.values()) for task in load_sts_tasks(data_root)}
    tables = (load_stsb(data_root, "train"), load_sickr(data_root, "train"))
    train = [pair for table in tables for pair in zip(table["sentence1"], table["sentence2"], strict=True)]
    rows = {kind: set[int]() for kind in KINDS}
    for leak in find_leaks(train, tests, near=None):
        rows[leak.kind].add(leak.row)
    literally = rows["exact"] | rows["swapped"]
    assert len(train) == 10_249
    assert len(literally) == 4_851
    assert len(rows["normalized"] - literally) == 80

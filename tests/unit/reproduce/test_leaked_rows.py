"""Row numbers of leaked test pairs, and the file of those of the published sets."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from sts_lightning.data.fetch import SCORED_PAIRS
from sts_lightning.data.readers.sts_sets import SEVEN_TASKS, STSTask
from sts_lightning.data.table import Table
from sts_lightning.evaluation.leaks import KINDS
from sts_lightning.reproduce.leak_free import LeakedRows, hash_scores, parse, published_leaks
from tools.leaked_rows import as_json, find_leaked_rows

FLUTE = ("A man is playing a large flute.", "A man plays the flute.")

DOGS = ("Two dogs run through tall grass.", "A cat sleeps on the red sofa.")

NEW = ("Nobody knows this one.", "Nor that one.")


def task(name: str, **subsets: list[tuple[str, str]]) -> STSTask:
    tables = {}
    for subset, pairs in subsets.items():
        first, second = zip(*pairs, strict=True)
        labels = [0.2 * row for row in range(len(pairs))]
        tables[subset] = Table({"sentence1": first, "sentence2": second, "label": labels})
    return STSTask(name, tables)


TASKS = [
    task("one", x=[NEW, FLUTE], y=[DOGS[::-1], ("a MAN plays the flute", FLUTE[0])]),
    task("two", test=[(DOGS[1], "Two dogs run through the tall grass."), NEW, FLUTE]),
]


@pytest.fixture
def found() -> LeakedRows:
    return find_leaked_rows([FLUTE, DOGS], TASKS, "mine.csv", near=0.7)


def test_each_test_pair_has_its_strongest_kind(found: LeakedRows) -> None:
    assert found.tests["one"].kinds.tolist() == ["", "exact", "swapped", "normalized"]
    assert found.tests["two"].kinds.tolist() == ["near", "", "exact"]


def test_round_trip_without_sentences(found: LeakedRows) -> None:
    read = parse(as_json(found))
    assert (read.training, read.near) == ("mine.csv", 0.7)
    for name, test in found.tests.items():
        assert read.tests[name].kinds.tolist() == test.kinds.tolist()
        assert read.tests[name].gold == test.gold
    assert json.loads(as_json(found))["tests"]["one"]["exact"] == "1"
    for test in json.loads(as_json(found))["tests"].values():
        assert test.keys() == {"pairs", "gold", *KINDS}
        assert all(re.fullmatch(r"[0-9 -]*", test[kind]) for kind in KINDS)


@pytest.mark.parametrize("rows", [[], [0], [0, 1, 4, 5, 6, 9], list(range(30))])
def test_ranges(rows: list[int]) -> None:
    pairs = [FLUTE if row in rows else (f"{row} one", f"{row} two") for row in range(30)]
    found = find_leaked_rows([FLUTE], [task("t", x=pairs)], "mine", near=None)
    assert np.flatnonzero(parse(as_json(found)).tests["t"].kinds == "exact").tolist() == rows


def test_test_sets_are_known_by_their_gold_scores(found: LeakedRows) -> None:
    golds = {
        one.name: np.concatenate([np.asarray(table["label"]) for table in one.subsets.values()])
        for one in TASKS
    }
    assert {name: test.gold for name, test in found.tests.items()} == {
        name: hash_scores(gold) for name, gold in golds.items()
    }
    assert found.tests["two"].gold == hash_scores(golds["two"].astype(np.float32))
    assert found.tests["two"].gold != hash_scores(golds["two"][::-1])
    assert (
        hash_scores(np.array([1, 2]))
        == hash_scores(np.array([1.0, 2.00001]))
        != hash_scores(np.array([2, 1]))
    )


def test_the_published_sets() -> None:
    leaks = published_leaks()
    assert tuple(leaks.tests) == SEVEN_TASKS
    sizes = {name: len(test.kinds) for name, test in leaks.tests.items()}
    for year in range(12, 17):
        files = [count for name, count in SCORED_PAIRS.items() if f"STS{year}-en" in name]
        assert sizes[f"STS{year}"] == sum(files)
    assert (sizes["STSB"], sizes["SICKR"]) == (1_379, 4_927)
    assert leaks.near == 0.8

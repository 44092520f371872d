from __future__ import annotations

import hashlib
import logging
from pathlib import Path

import numpy as np
import pytest

from sts_lightning.core.errors import DataError
from sts_lightning.data.table import (
    SourceCount,
    Table,
    check_limit,
    concatenate,
    hash_pairs,
    hash_tables,
    require_varied_scores,
)

ABOUT = (("one", "zabc"), ("two", "defg"))


def test_kept_rows_keep_their_order() -> None:
    table = Table({"sentence1": ["a", "b", "c"], "sentence2": ["x", "x", "y"], "label": [1.0, 2.0, 3.0]})
    kept = table[np.array([True, False, True])]
    assert kept.columns == {"sentence1": ["a", "c"], "sentence2": ["x", "y"], "label": [1.0, 3.0]}
    assert kept[1] == {"sentence1": "c", "sentence2": "y", "label": 3.0}
    assert table[np.array([2, 0])]["sentence1"] == table[::-2]["sentence1"] == ["c", "a"]
    assert table.__getitems__([1]) == [{"sentence1": "b", "sentence2": "x", "label": 2.0}]


def test_dropped_rows_are_counted_for_their_source_in_any_order_of_rows() -> None:
    one, two = (Table({"sentence1": list(texts)}).read_from(name) for name, texts in ABOUT)
    table = concatenate([one.drop(np.array([True, False, False, False]), "before"), two])
    assert table["sentence1"] == list("abcdefg")
    mixed = table[np.array([3, 0, 6, 1, 5, 2, 4])]  # d a g b f c e
    rest = mixed.drop(np.array([True, False, True, False, True, False, False]), "now")
    assert rest["sentence1"] == ["a", "b", "c", "e"]
    assert [source.dropped for source in rest.sources] == [{"before": 1, "now": 0}, {"now": 3}]
    assert [source.kept for source in rest.sources] == [3, 1]
    assert [source.dropped for source in table.sources] == [{"before": 1}, {}]


def test_hashes_are_those_that_runs_have_stored() -> None:
    table = Table({"sentence1": ["a", "\u00e9"], "negatives": [["x"], []], "line": [0, 1]})
    written = b"('sentence1', ['a', '\xc3\xa9'])('negatives', [['x'], []])('line', [0, 1])"
    assert hash_tables([table]) == hashlib.sha256(written).hexdigest()
    scored = Table({"sentence1": ["a", "b"], "sentence2": ["c", "d"], "label": [3.5, 0.0]})
    written = b"(['a', 'b'], ['c', 'd'], [1, 0])"
    assert hash_pairs([scored]) == hashlib.sha256(written).hexdigest()


def test_a_sample_is_fixed_and_in_file_order() -> None:
    table = Table({"sentence1": [f"s{number:02}" for number in range(50)]}).read_from("s")
    few = table.sample(9)
    assert (len(few), few.sources[0].dropped) == (9, {"data.limit": 41})
    assert few["sentence1"] == sorted(few["sentence1"]) == table.sample(9)["sentence1"]
    assert len(table.sample(None)) == len(table.sample(50)) == 50


def test_a_limit_leaves_rows_to_train_on() -> None:
    check_limit(None)
    check_limit(2)
    with pytest.raises(ValueError, match="limit must be at least 2"):
        check_limit(1)


@pytest.mark.parametrize("labels", [[1.0], [2.0, 2.0, 2.0]])
def test_scores_without_a_correlation(labels: list[float]) -> None:
    with pytest.raises(DataError, match=r"^gold\.txt: "):
        require_varied_scores(Table({"label": labels}), Path("gold.txt"))


def test_counts_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    count = SourceCount("STS-B", 5749, {"in a test set": 4758, "short": 0})
    with caplog.at_level(logging.INFO, logger="sts_lightning"):
        count.report()
        SourceCount("mine.csv", 10, weight=0.25).report()
    assert count.kept == 991
    assert caplog.messages == [
        "STS-B: 5,749 rows read, 4,758 dropped: in a test set, 991 kept",
        "mine.csv: 10 rows read, 10 kept, weight 0.25: 2 rows in an epoch",
    ]

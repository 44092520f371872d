from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

from sts_lightning.core.errors import DataError
from sts_lightning.data.tables import (
    SourceCount,
    check_limit,
    make_table,
    require_varied_scores,
    sample_rows,
    select_rows,
)


def test_dropped_rows_are_counted_for_their_source() -> None:
    table = make_table({"sentence1": list("abcdef")})
    counts = [SourceCount("one", 3, {"before": 1}), SourceCount("two", 4)]
    rest = select_rows(table, np.array([True, False, True, True, False, False]), counts, "now")
    assert rest["sentence1"][:] == ["a", "c", "d"]
    assert [count.dropped for count in counts] == [{"before": 1, "now": 1}, {"now": 2}]
    assert [count.kept for count in counts] == [1, 2]


def test_a_sample_is_fixed_and_in_file_order() -> None:
    table = make_table({"sentence1": [f"s{number:02}" for number in range(50)]})
    count = SourceCount("s", 50)
    texts = list(sample_rows(table, 9, [count])["sentence1"])
    assert (len(texts), count.dropped) == (9, {"data.limit": 41})
    assert texts == sorted(texts)
    assert texts == list(sample_rows(table, 9, [SourceCount("s", 50)])["sentence1"])
    assert len(sample_rows(table, None, [SourceCount("s", 50)])) == 50
    assert len(sample_rows(table, 50, [SourceCount("s", 50)])) == 50


def test_a_limit_leaves_rows_to_train_on() -> None:
    check_limit(None)
    check_limit(2)
    with pytest.raises(ValueError, match="limit must be at least 2"):
        check_limit(1)


@pytest.mark.parametrize("labels", [[1.0], [2.0, 2.0, 2.0]])
def test_scores_without_a_correlation(labels: list[float]) -> None:
    with pytest.raises(DataError, match=r"^gold\.txt: "):
        require_varied_scores(make_table({"label": labels}), Path("gold.txt"))


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

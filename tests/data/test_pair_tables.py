from __future__ import annotations

import logging
from pathlib import Path

import pytest

from sts_lightning.data.pair_tables import (
    SourceCount,
    check_limit,
    keep_rows,
    make_table,
    require_varied_scores,
    sample_rows,
)
from sts_lightning.errors import DataError


def test_kept_rows_keep_their_order() -> None:
    table = make_table({"sentence1": ["a", "b", "c"], "sentence2": ["x", "x", "y"], "label": [1.0, 2.0, 3.0]})
    kept = keep_rows(table, lambda first, second: first != "b")
    assert kept.to_dict() == {"sentence1": ["a", "c"], "sentence2": ["x", "y"], "label": [1.0, 3.0]}


def test_a_sample_is_fixed_and_in_file_order() -> None:
    table = make_table({"sentence1": [f"s{number:02}" for number in range(50)]})
    sample, left_out = sample_rows(table, 9)
    texts = list(sample["sentence1"])
    assert (len(texts), left_out) == (9, 41)
    assert texts == sorted(texts)
    assert texts == list(sample_rows(table, 9)[0]["sentence1"])
    assert sample_rows(table, None)[1] == sample_rows(table, 50)[1] == 0


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
    assert count.kept == 991
    assert caplog.messages == ["STS-B: 5,749 rows read, 4,758 dropped: in a test set, 991 kept"]

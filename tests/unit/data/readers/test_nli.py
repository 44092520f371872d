"""NLI pairs of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.core.errors import DataError
from sts_lightning.data.readers.nli import read_nli_pairs


def test_classes_by_name_in_any_case_and_by_index(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("premise\thypothesis\tlabel\na\tb\tNeutral\nc\td\t0\ne\tf\tentailment\n")
    assert read_nli_pairs(path) == [("a", "b", 1), ("c", "d", 0), ("e", "f", 2)]


def test_numbers_are_indices_only_where_no_class_is_a_number(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("premise\thypothesis\tlabel\na\tb\t1\nc\td\t3\n")
    assert read_nli_pairs(path, classes=("1", "2", "3")) == [("a", "b", 0), ("c", "d", 2)]
    assert "labels are numbers" not in caplog.text
    path.write_text("premise\thypothesis\tlabel\na\tb\t1\nc\td\t0\n")
    with pytest.raises(DataError, match=r"line 3: the label '0' is not 1, 2, 3\.$"):
        read_nli_pairs(path, classes=("1", "2", "3"))
    with caplog.at_level("INFO", logger="sts_lightning"):
        read_nli_pairs(path)
    assert "labels are numbers: 0 is contradiction, 1 is neutral, 2 is entailment" in caplog.text


def test_columns_and_classes_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("kind,one,two\nsame,a,b\nother,c,d\n")
    found = read_nli_pairs(path, ("one", "two", "kind"), ("other", "same"))
    assert found == [("a", "b", 1), ("c", "d", 0)]


@pytest.mark.parametrize("label", ["3", "-1", "1.0", "perhaps"])
def test_a_wrong_label_is_named_with_its_line(tmp_path: Path, label: str) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(f"premise\thypothesis\tlabel\na\tb\t1\nc\td\t{label}\n")
    with pytest.raises(DataError, match=rf"pairs\.tsv, line 3: the label '{label}' is not contradiction"):
        read_nli_pairs(path)

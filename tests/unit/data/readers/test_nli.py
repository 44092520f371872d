"""NLI pairs of a file."""

from __future__ import annotations

import re
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
    read_nli_pairs(path, folded=False)
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "0 is contradiction (the least similar), 1 is neutral, 2 is entailment (the most" in warning
    [proposed] = re.findall(r"data\.classes=\[([^]]*)\]' turns it round", warning)
    turned = read_nli_pairs(path, classes=tuple(proposed.split(",")), folded=False)
    assert [index for *_, index in turned] == [1, 2]  # 2 - 1 and 2 - 0
    assert caplog.text.count("labels are numbers") == 1


def test_truth_values_and_whole_numbers_of_any_writing(tmp_path: Path) -> None:
    """Of JSON, of a spreadsheet, and of pandas where a column has gaps."""
    path = tmp_path / "pairs.jsonl"

    def classes(labels: str, *names: str) -> list[int]:
        line = '{{"premise": "a", "hypothesis": "b", "label": {}}}\n'
        path.write_text("".join(line.format(label) for label in labels.split()))
        return [index for *_, index in read_nli_pairs(path, classes=names)]

    assert classes('true false "TRUE" "False"', "false", "true") == [1, 0, 1, 0]
    assert classes('1 1.0 "1" "0.00" 0', "no", "yes") == [1, 1, 1, 0, 0]
    assert classes("1.0 2.0 2", "2", "1") == [1, 0, 0]
    assert classes("1.0 2.0", "1.0", "2.0") == [0, 1]
    with pytest.raises(DataError, match=r"line 2: the label '1\.5' is not no, yes"):
        classes("1 1.5", "no", "yes")


def test_columns_and_classes_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("kind,one,two\nsame,a,b\nother,c,d\n")
    found = read_nli_pairs(path, ("one", "two", "kind"), ("other", "same"))
    assert found == [("a", "b", 1), ("c", "d", 0)]


@pytest.mark.parametrize("label", ["3", "-1", "1.5", "perhaps"])
def test_a_wrong_label_is_named_with_its_line(tmp_path: Path, label: str) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(f"premise\thypothesis\tlabel\na\tb\t1\nc\td\t{label}\n")
    with pytest.raises(DataError, match=rf"pairs\.tsv, line 3: the label '{label}' is not contradiction"):
        read_nli_pairs(path)

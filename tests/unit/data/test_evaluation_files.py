"""Test tasks from the user's own files."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.core.errors import ConfigError, DataError
from sts_lightning.data.files import load_test_files

ROWS = "q,a,r\nOne dog.,Two  dogs.,6\nRain.,Sun.,1.5\n"
COLUMNS = ("q", "a", "r")


def test_scores_keep_their_scale_and_sentences_their_text(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text(ROWS)
    (tmp_path / "more.jsonl").write_text('{"q": "a", "a": "b", "r": -1}\n{"q": "c", "a": "d", "r": 100}\n')
    mine, more = load_test_files([str(tmp_path / "mine.csv"), str(tmp_path / "more.jsonl")], COLUMNS)
    assert (mine.name, more.name) == ("mine", "more")
    assert list(mine.subsets["test"]["label"]) == [6, 1.5]
    assert list(mine.subsets["test"]["sentence2"]) == ["Two  dogs.", "Sun."]
    assert list(more.subsets["test"]["label"]) == [-1, 100]


def test_files_of_one_name_are_named_with_their_folders(tmp_path: Path) -> None:
    files = []
    for folder in ("left", "right"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "dev.csv").write_text(ROWS)
        files.append(str(tmp_path / folder / "dev.csv"))
    assert [task.name for task in load_test_files(files, COLUMNS)] == ["left/dev", "right/dev"]
    with pytest.raises(ConfigError) as caught:
        load_test_files([*files, files[0]], COLUMNS)
    assert caught.value.key == "test"


def test_a_file_with_the_name_of_another_score_is_named_with_its_folder(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for name in ("dev", "average", "rank"):
        (tmp_path / "mine" / f"{name}.csv").write_text(ROWS)
        (task,) = load_test_files([str(tmp_path / "mine" / f"{name}.csv")], COLUMNS)
        assert task.name == f"mine/{name}"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("q,a,r\nOne.,Two.,1\nThree.,,2\nFive.,Six.,x\n", 3),
        ("q,a,r\nOne.,Two.,1\nThree.,Four.,nan\n", 3),
        ("q,a,r\nOne.,Two.,1\nThree.,Four.,8\n", 3),
        ("q,a\nOne.,Two.\n", 1),
        ("q,a,r\nOne.,Two.,1\nThree.,Four.,1\n", None),  # all scores are equal
    ],
)
def test_bad_rows_are_rejected_by_line(tmp_path: Path, text: str, line: int | None) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        load_test_files([str(path)], COLUMNS, (1, 7))
    assert str(path) in str(caught.value)
    assert line is None or f"line {line}:" in str(caught.value)
    assert ("and 1 more row with errors: line 4." in str(caught.value)) == ("Five" in text)


def test_columns_are_three_different_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_test_files([str(tmp_path / "mine.csv")], ("q", "q", "r"))
    assert caught.value.key == "sentence1"

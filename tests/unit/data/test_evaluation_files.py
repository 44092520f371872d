"""Test tasks from the user's own files."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from sts_lightning.core.errors import ConfigError, DataError
from sts_lightning.data.judged_files import load_test_files, read_text_pairs

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


def test_compressed_files_and_parquet_are_the_same_task(tmp_path: Path) -> None:
    table = pd.DataFrame({"q": ["One dog.", "Rain."], "a": ["Two  dogs.", "Sun."], "r": [6, 1.5]})
    table.to_csv(tmp_path / "mine.csv", index=False)
    table.to_csv(tmp_path / "a.csv.gz", index=False)
    table.to_csv(tmp_path / "b.TSV.GZ", index=False, sep="\t", compression="gzip")
    table.to_json(tmp_path / "c.jsonl.gz", orient="records", lines=True)
    table.to_parquet(tmp_path / "d.parquet")
    files = [str(path) for path in sorted(tmp_path.iterdir())]
    tasks = load_test_files(files, COLUMNS)
    assert [task.name for task in tasks] == ["a", "b", "c", "d", "mine"]
    assert all(task.subsets["test"].columns == tasks[-1].subsets["test"].columns for task in tasks)


def test_near_names_are_proposed_as_they_are_typed(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("question,answer,label\na,b,1\nc,d,2\n")
    with pytest.raises(DataError, match=r"Near are: sentence1=question sentence2=answer score=label\.$"):
        load_test_files([str(path)])
    with pytest.raises(DataError, match=r"Near are: --columns question answer\.$"):
        read_text_pairs(path, ("sentence1", "sentence2"))

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from sts_lightning.core.errors import DataError
from sts_lightning.data.data_set import DataSet, Splits
from sts_lightning.data.sentences import sentences
from sts_lightning.papers.word_repetition import PaperCodeWordRepetition, WordRepetition
from tests.support.data_modules import training


def data(path: Path, **settings: Any) -> DataSet:
    return sentences(".", path=str(path), **settings)


def read(path: Path, **settings: Any) -> Splits:
    return training(sentences, ".", path=str(path), **settings)


def test_reads_lines_and_counts_empty_ones(tmp_path: Path) -> None:
    path = tmp_path / "plain.txt"
    path.write_text("One  sentence .\n\nAnother one .\n  \nThird .\n")
    source = read(path)
    assert list(source.train["sentence1"]) == ["One  sentence .", "Another one .", "Third ."]
    assert (source.train.sources[0].read, source.train.sources[0].kept) == (5, 3)
    assert source.train.sources[0].dropped == {"empty line": 2, "data.limit": 0}
    (tmp_path / "wiki1m_for_simcse.txt").write_text(path.read_text())
    published = training(sentences, root=str(tmp_path)).train
    assert published["sentence1"][0] == "One sentence ."


def test_a_compressed_file_has_the_same_sentences(tmp_path: Path) -> None:
    text = "One dog.\n\nIt rained.\n"
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text.encode()))
    assert read(tmp_path / "a.txt.gz").train.columns == read(tmp_path / "a.txt").train.columns


def test_limit_draws_the_same_sentences(tmp_path: Path) -> None:
    path = tmp_path / "plain.txt"
    path.write_text("\n".join(f"sentence {number}" for number in range(100)) + "\n")
    first, second = (list(read(path, limit=10).train["sentence1"]) for _ in range(2))
    assert first == second
    assert len(first) == 10
    assert first != [f"sentence {number}" for number in range(10)]
    assert len(read(path, limit=1000).train) == 100


def test_views_are_the_same_sentence(tmp_path: Path) -> None:
    plain = data(tmp_path / "x").views
    assert [(view.column, view.augmentation) for view in plain] == [("sentence1", None)] * 2
    repeated = data(tmp_path / "x", repetition=0.3, views=3).views
    assert [view.column for view in repeated] == ["sentence1"] * 3
    assert [type(view.augmentation) for view in repeated] == [type(None), WordRepetition, type(None)]
    as_code = data(tmp_path / "x", repetition=0.3, paper_code_repetition=True).views
    assert isinstance(as_code[1].augmentation, PaperCodeWordRepetition)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"views": 4}, "views must be 1, 2 or 3"),
        ({"views": 1, "repetition": 0.3}, "repetition needs a second view"),
        ({"limit": 1}, "limit must be at least 2"),
        ({"repetition": 1.5}, r"repetition must lie in \[0, 1\]"),
    ],
)
def test_rejected_arguments(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        data(tmp_path / "x", **settings)


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path / "absent.txt")
    with pytest.raises(DataError, match=r"no wiki1m_for_simcse\.txt or unsup/sentences\.txt here"):
        training(sentences, root=str(tmp_path))


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.csv.gz", "a.parquet"])
def test_a_table_is_no_text_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text("sentence1,sentence2,score\na,b,1\nc,d,2\n")
    with pytest.raises(DataError, match=f"{name}: is a table by its name"):
        read(path)

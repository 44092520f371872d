"""Folders that are no data set of pairs, and what is said about them."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from datasets.exceptions import DatasetGenerationError
from sts_lightning.data.readers.hub_errors import explain

from sts_lightning.data.readers.hub import HubTable
from sts_lightning.errors import DataError, StorageError
from tests.data.hub_folder import NAMES, own_caches, rows, save


@pytest.fixture(autouse=True)
def caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with own_caches(tmp_path_factory.mktemp("caches")):
        yield


def rejected(path: Path | str, split: str = "train", streaming: bool = False, **options: str) -> DataError:
    with pytest.raises(DataError) as caught:
        list(HubTable(str(path), streaming=streaming, **options).rows(split, NAMES))
    return caught.value


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize(
    ("names", "key", "hint"),
    [
        (("sentence1", "sentence2", "label"), "data.score", "Did you mean label?"),
        (("sentence1", "sentence_2", "score"), "data.sentence2", "Did you mean sentence_2?"),
        (("premise", "sentence2", "score"), "data.sentence1", "Did you mean premise?"),
        (("premise", "hypothesis", "score"), "data.sentence1", "Name the column with data.sentence1=..."),
    ],
)
def test_a_missing_column(
    names: tuple[str, ...], key: str, hint: str, kind: str, streaming: bool, tmp_path: Path
) -> None:
    save(tmp_path, "train", rows(3), kind, names)
    error = rejected(tmp_path, streaming=streaming)
    assert (error.key, error.hint) == (key, hint)
    assert f"there are {', '.join(map(repr, names))}." in str(error)
    assert f"{tmp_path}, split train" in str(error)


def test_a_missing_split(tmp_path: Path) -> None:
    for split in ("train", "validation"):
        save(tmp_path, split, rows(3))
    error = rejected(tmp_path, "valid")
    assert (error.key, error.hint) == ("data.split", "Did you mean validation?")
    assert rejected(tmp_path, "xyz").hint == "There are: train, validation."


def test_configurations(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(
        "---\nconfigs:\n- config_name: en\n  data_files: en.parquet\n"
        "- config_name: de\n  data_files: de.parquet\n---\n"
    )
    save(tmp_path, "en", rows(3))
    save(tmp_path, "de", rows(5))
    assert len(list(HubTable(str(tmp_path), config="de").rows("train", NAMES))) == 5
    for options, message in (({}, "several configurations"), ({"config": "fr"}, "no configuration 'fr'")):
        error = rejected(tmp_path, **options)
        assert message in str(error)
        assert (error.key, error.hint) == ("data.config", "There are: en, de.")


def test_what_is_no_data_set(tmp_path: Path) -> None:
    assert rejected("glue").key == "data.path"
    assert rejected(tmp_path / "absent").key == "data.path"
    assert "data=pairs_file" in (rejected(save(tmp_path, "mine", rows(3), "csv")).hint or "")
    (tmp_path / "empty").mkdir()
    assert "no data files" in str(rejected(tmp_path / "empty"))
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "a.txt").write_text("a\nb\n")
    assert "of the kind text" in str(rejected(tmp_path / "words"))
    save(tmp_path / "table", "train", rows(3))
    assert rejected(tmp_path / "table", revision="main").key == "data.revision"


@pytest.mark.parametrize("streaming", [False, True])
def test_a_broken_file(streaming: bool, tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"sentence1": "a", "sentence2": "b", "score": 1}\n{"sent\n')
    assert "it cannot be read" in str(rejected(tmp_path, streaming=streaming))
    whole = save(tmp_path / "cut", "train", rows(500))
    whole.write_bytes(whole.read_bytes()[:-100])
    assert "it cannot be read" in str(rejected(tmp_path / "cut", streaming=streaming))


def test_a_full_disk() -> None:
    error = DatasetGenerationError("An error occurred while generating the dataset")
    error.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    told = explain(error, "owner/name")
    assert isinstance(told, StorageError)
    assert "HF_HOME" in (told.hint or "")

"""Files of training examples and their weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.core.errors import DataError
from sts_lightning.data.sources import find_files, only_file, short_names, weighted
from sts_lightning.data.table import summary


def touch(folder: Path, *names: str) -> list[str]:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return [str(folder / name) for name in names]


def test_forms_of_a_setting() -> None:
    assert weighted("a.csv") == {"a.csv": 1.0}
    assert weighted(["a.csv", "b.csv"]) == {"a.csv": 1.0, "b.csv": 1.0}
    assert weighted({"a.csv": 2, "b.csv": 0.3}) == {"a.csv": 2.0, "b.csv": 0.3}


@pytest.mark.parametrize(
    "value",
    [
        [],
        [" "],
        ["a.csv", "a.csv"],
        {"a.csv": 0},
        {"a.csv": 1001},
    ],
)
def test_rejected_forms(value: object) -> None:
    with pytest.raises(ValueError, match=r"^path\b"):
        weighted(value)  # type: ignore[arg-type]


def test_patterns_are_found_in_alphabetical_order_with_their_weight(tmp_path: Path) -> None:
    b, a, odd = touch(tmp_path, "b.csv", "a.csv", "odd[1].csv")
    (tmp_path / "folder.csv").mkdir()
    assert list(find_files({f"{tmp_path}/[ab]*.csv": 0.5}).items()) == [(a, 0.5), (b, 0.5)]
    assert find_files({odd: 1.0}) == {odd: 1.0}  # a name, though it looks like a pattern
    assert find_files({"absent.csv": 1.0}) == {"absent.csv": 1.0}  # the reader says what is wrong with it


def test_a_pattern_without_a_match_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no file matches .*/parts/\*\.csv") as caught:
        find_files({f"{tmp_path}/parts/*.csv": 1.0})
    assert caught.value.key == "path"


def test_a_file_that_two_patterns_find_is_named(tmp_path: Path) -> None:
    (a,) = touch(tmp_path, "a.csv")
    with pytest.raises(DataError) as caught:
        find_files({f"{tmp_path}/*.csv": 1.0, a: 2.0})
    assert (caught.value.path, caught.value.key) == (a, "path")


def test_names_for_records() -> None:
    assert short_names(["x/a.csv", "y/a.csv", "x/b.csv"]) == {
        "x/a.csv": "x/a.csv",
        "y/a.csv": "y/a.csv",
        "x/b.csv": "b.csv",
    }
    assert [summary(list("abcdef"[:count])) for count in (1, 4, 6)] == ["a", "a, b, c, d", "a, b, c, 3 more"]


def test_the_only_file() -> None:
    assert only_file(None) is None
    assert only_file("x/a.csv") == only_file(["x/a.csv"]) == "a.csv"
    assert only_file(["a.csv", "b.csv"]) == only_file({"a.csv": 2}) == ""

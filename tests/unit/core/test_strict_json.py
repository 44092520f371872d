"""JSON that Python's own parser takes, or on which it fails in its own ways, is rejected with its place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sts_lightning.core.files import as_type, check_finite, parse_json, read_json
from tests.conftest import ROOT

BROKEN = [
    ("", "empty"),
    (" \n\t", "empty"),
    ("{", "line 1 column 2"),
    ('{"a": 1,\n "b" 2}', "line 2 column 6"),
    ('{"a": 1} {"a": 1}', "line 1 column 10"),
    ("'a'", "line 1"),
    ('{"a": 1, "b": {"c": 1, "c": 1}}', "'c' occurs twice"),
    ('{"a": [1, {"b": NaN}]}', "a.1.b is nan"),
    ('{"a": Infinity}', "a is inf"),
    ('{"a": -Infinity}', "a is -inf"),
    ('{"a": 1e999}', "a is inf"),
    ("NaN", "the content is nan"),
    (f'{{"a": {"1" * 400}}}', "a is 111"),
    (f'{{"a": {"1" * 5000}}}', "digits"),
    ("[" * 100_000, "nested"),
    ('{"a":' * 100_000, "nested"),
    (b"\xff\xfe{\0}\0", "utf-8"),
    ('{"a": "\0"}', "line 1 column 8"),
]


@pytest.mark.parametrize(("content", "named"), BROKEN)
def test_the_error_names_the_place(content: str | bytes, named: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ValueError, match=r"\w") as caught:
        read_json(path)
    assert named in str(caught.value)
    assert len(str(caught.value)) < 200
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "b.json")


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (
            '\ufeff{"a": [1, -2.5e-3, true, null, "\\ud83d\\ude00 \u2028"]}\r\n',
            {"a": [1, -0.0025, True, None, "😀 \u2028"]},
        ),
        ("1e308", 1e308),
        ('{"": {"": 0}}', {"": {"": 0}}),
        ("[[[[]]]]", [[[[]]]]),
    ],
)
def test_valid_json_is_read(content: str, found: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(content, "utf-8")
    assert read_json(path) == found


def test_numbers_of_a_line_may_be_what_python_writes() -> None:
    """The columns that are read have checks of their own; others are nobody's concern."""
    assert parse_json('{"a": NaN}')["a"] != 0
    with pytest.raises(ValueError, match=r"a\.0 is inf"):
        check_finite({"a": [float("inf")]})


def test_no_other_module_parses_json_of_others() -> None:
    own = {
        "core/files.py",
        "export/sentence_transformers.py",  # what the library has just written
        "models/loading/folder.py",  # likewise
        "models/text/tokenizer_files.py",  # likewise
        "export/card.py",  # what the export has just written; a config.json may hold Infinity
    }
    source = ROOT / "src" / "sts_lightning"
    found = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if "json.load" in path.read_text()
    }
    assert found == own


@dataclass(frozen=True)
class Point:
    __pydantic_config__ = {"extra": "forbid"}

    x: float
    names: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"x": "1"}, "x: Input should be a valid number, got 1"),
        ({"x": True}, "x: Input should be a valid number"),
        ({}, "x: Field required"),
        ({"x": 1, "y": 2}, "y: Unexpected keyword argument"),
        ({"x": 1, "names": ["a", 2]}, "names.1: Input should be a valid string"),
        ([], "the content: Input should be an object"),
    ],
)
def test_another_type_is_named_by_its_key(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as caught:
        as_type(value, Point)
    assert str(caught.value).startswith(message)


def test_values_of_a_type() -> None:
    assert as_type({"x": 1, "names": ["a"]}, Point) == Point(1.0, ("a",))
    assert type(as_type({"x": 1}, Point).x) is float

"""Values of JSON files against declared types."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, NotRequired, Required, TypedDict

import pytest

from sts_lightning.json_types import as_type


@dataclass(frozen=True)
class Point:
    x: float
    names: list[str]
    more: Mapping[str, int] = field(default_factory=dict)


class Open(TypedDict, total=False):
    place: Required[Point]
    count: Annotated[int, 0, math.inf] | None


class Whole(TypedDict):
    a: int
    b: NotRequired[str]


POINT = {"x": 1, "names": ["a"], "more": {"b": 2}}


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (int, True, "k must be a whole number, got True"),
        (int, 1.0, "k must be a whole number, got 1.0"),
        (float, "1", "k must be a number, got '1'"),
        (float, True, "k must be a number"),
        (bool, 1, "k must be true or false"),
        (str, None, "k must be a text, got None"),
        (str | None, 1, "k must be a text, got 1"),
        (int | str | None, [], "k must be a whole number or a text or null, got []"),
        (list[int], {}, "k must be a list"),
        (list[int], [1, "2"], "k.1 must be a whole number"),
        (dict[str, float], [], "k must be an object"),
        (dict[str, float], {"a": None}, "k.a must be a number"),
        (tuple[float, float], [1.0], "k must have 2 items, got 1"),
        (tuple[float, ...], [1.0, "x"], "k.1 must be a number"),
        (Annotated[int, 0, 5], 6, "k must lie between 0 and 5, got 6"),
        (Point, [], "k must be an object"),
        (Point, {"x": 1.0, "names": []}, "k lacks more"),
        (Point, {**POINT, "y": 1}, "k.y is unknown"),
        (Point, {**POINT, "more": {"b": "2"}}, "k.more.b must be a whole number"),
        (Open, {}, "k lacks place"),
        (Open, {"place": {**POINT, "names": [1]}}, "k.place.names.0 must be a text"),
        (Open, {"place": POINT, "count": -1}, "k.count must lie between 0 and inf"),
        (Whole, {"b": "x"}, "k lacks a"),
        (Whole, {"a": 1, "b": 2}, "k.b must be a text"),
        (str, ["x" * 200], "got ['xxx"),
    ],
)
def test_the_error_names_key_and_value(kind: Any, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as caught:
        as_type(value, kind, "k")
    assert message in str(caught.value)
    assert len(str(caught.value)) < 120


def test_values_of_the_type() -> None:
    found = as_type({"place": POINT, "count": None, "other": [1]}, Open)
    assert found == {"place": Point(1.0, ["a"], {"b": 2}), "count": None, "other": [1]}
    assert type(found["place"].x) is float
    assert as_type([1, 2.5], tuple[float, ...]) == (1.0, 2.5)
    assert as_type({"a": 1}, Whole) == {"a": 1}
    assert [as_type(value, int | str | None) for value in (3, "unknown", None)] == [3, "unknown", None]
    assert as_type({"x": [object]}, Any) == {"x": [object]}

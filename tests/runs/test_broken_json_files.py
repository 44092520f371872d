"""Broken JSON files of runs, data roots and tables: the error names the file, and its line or key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sts_lightning.data.fetch.manifest import read_manifest
from sts_lightning.runs.folder import RunFolder
from tests.broken import Broken, Healthy, Reader, check_broken, check_healthy, label, put

ABSENT = object()


def change(good: dict[str, Any], path: str, value: Any) -> str:
    """Return JSON in which the value of a dotted key is another one; ABSENT removes it."""
    changed = json.loads(json.dumps(good))
    *parents, last = path.split(".")
    node = changed
    for parent in parents:
        node = node[int(parent) if isinstance(node, list) else parent]
    if value is ABSENT:
        del node[last]
    else:
        node[int(last) if isinstance(node, list) else last] = value
    return json.dumps(changed)


READERS: dict[str, Reader] = {
    "metrics": lambda folder, name, content: RunFolder(put(folder / name, content).parent).metrics().scores,
    "manifest": lambda folder, name, content: read_manifest(put(folder / name, content).parent),
}
METRICS, SOURCES = "metrics.json", "sources.json"
DEEP = "[" * 100_000

COUNT = {"source": "a.csv", "unit": "pairs", "rows": 3, "published": None, "dropped": {"empty": 1}}
COST = {"run": "runs/a", "wall_seconds": 1.5, "peak_memory_bytes": {"host": 5}}
SCORES = {"spearman": 50.0, "pearson": 51, "pairs": 40}
RESULTS = {
    "test": {"average": 60.5, "tasks": {"A": {**SCORES, "subsets": {"x": SCORES}}}, "aggregate": "all"},
    "dev": SCORES,
    "dev_untuned": 40.0,
    "test_untuned": None,
    "best_step": 2,
    "steps": 4,
    "seed": 0,
    "precision": "32-true",
    "training": {"max_length": 32},
    "max_length": 32,
    "trained_on": [COUNT, None],
    "data": [{"source": "a.csv"}],
    "wall_seconds": 1.5,
    "earlier": [COST],
    "peak_memory_bytes": {"host": 5, "cuda": 6.0},
    "rank": {"average": 12.0},
    "versions": {"python": "3.12"},
    "git_commit": None,
}
FETCHED = {"source": "s", "place": "p", "revision": "r", "file": "f", "sha256": "0", "size": 1}
PART = {"fetched": "now", "downloads": [FETCHED], "files": {"a": "0"}, "counts": {"a": 1}, "notes": {}}
MANIFEST = {"version": 1, "parts": {"nli": PART}}

NO_TEXT, NO_NUMBER, NO_COUNT = (3, None, ["x"]), ("3", True, None, [3]), ("3", True, 1.5, -1, [3])
NO_LIST, NO_OBJECT = ({}, "x", 3, [3]), ([], "x", 3, True)
WRONG: dict[tuple[str, str], tuple[dict[str, Any], dict[str, Any]]] = {
    ("metrics", METRICS): (
        RESULTS,
        {
            "dev": ([], "x", 3),
            "test": ([], "x", 3),
            "dev.spearman": (*NO_NUMBER, 101, -1e300, ABSENT),
            "dev.pearson": (*NO_NUMBER, 1e9),
            "dev.pairs": NO_COUNT,
            "test.average": (*NO_NUMBER, ABSENT),
            "test.tasks": (*NO_OBJECT, None, ABSENT),
            "test.tasks.A": (*NO_OBJECT, None, {}, {"pearson": 1}),
            "test.tasks.A.spearman": (*NO_NUMBER, 1000),
            "test.tasks.A.subsets.x": NO_OBJECT,
            "test.tasks.A.subsets.x.pairs": NO_COUNT,
            "test.aggregate": NO_TEXT,
            "dev_untuned": ("3", [3]),
            "test_untuned": (3,),
            "best_step": NO_COUNT,
            "steps": NO_COUNT,
            "seed": ([1], 1.5),
            "precision": NO_TEXT,
            "training": (3,),
            "max_length": NO_COUNT,
            "trained_on": (None, *NO_LIST),
            "trained_on.0": NO_OBJECT,
            "trained_on.0.rows": (*NO_COUNT[:3], ABSENT),
            "trained_on.0.published": ("3", ABSENT),
            "trained_on.0.dropped": (None, {"why": "3"}, ABSENT),
            "data": NO_LIST,
            "wall_seconds": ("3", -1),
            "earlier": NO_LIST,
            "earlier.0.wall_seconds": ("3", -1, ABSENT),
            "peak_memory_bytes": NO_OBJECT,
            "peak_memory_bytes.host": (*NO_NUMBER, -1),
            "rank.average": (*NO_NUMBER, ABSENT),
            "versions": ({"python": 3}, []),
            "git_commit": (3,),
        },
    ),
    ("manifest", SOURCES): (
        MANIFEST,
        {
            "parts": (None, ABSENT, *NO_OBJECT),
            "parts.nli": (None, *NO_OBJECT),
            "parts.nli.fetched": (*NO_TEXT, ABSENT),
            "parts.nli.downloads": (None, *NO_LIST, ABSENT),
            "parts.nli.downloads.0.size": (*NO_COUNT, ABSENT),
            "parts.nli.downloads.0.sha256": (*NO_TEXT, ABSENT),
            "parts.nli.downloads.0.more": (1,),
            "parts.nli.files": (None, {"a": 1}, *NO_OBJECT),
            "parts.nli.counts": (None, {"a": "1"}, {"a": -1}, *NO_OBJECT),
            "parts.nli.more": (1,),
        },
    ),
}
"""Values of a wrong type or out of range, by file and dotted key."""


def damages(good: dict[str, Any]) -> list[tuple[str | bytes, str]]:
    """Return damages of any JSON file, each with what the error names."""
    text = json.dumps(good)
    key, value = next(iter(good.items()))
    twice = f'{{"{key}": {json.dumps(value)}, {text[1:]}'
    return [
        ("", "empty"),
        ("null", "an object"),
        ("[]", "an object"),
        (text[:-9], "line 1 column"),
        (text + text, "line 1 column"),
        (text.encode("utf-16"), "utf-8"),
        (twice, repr(key)),
        (f'{{"new": {{"x": NaN}}, {text[1:]}', "new.x is nan"),
        (f'{{"new": [-Infinity], {text[1:]}', "new.0 is -inf"),
        (f'{{"new": 1e400, {text[1:]}', "new is inf"),
        (f'{{"new": {"9" * 400}, {text[1:]}', "new is a whole number of 400 digits"),
        (DEEP, "nested"),
    ]


BROKEN = [
    *(
        Broken(reader, name, change(good, key, value), None, key.split(".")[-1] if value is ABSENT else key)
        for (reader, name), (good, keys) in WRONG.items()
        for key, values in keys.items()
        for value in values
    ),
    *(
        Broken(reader, name, content, None, named)
        for (reader, name), (good, _) in WRONG.items()
        for content, named in damages(good)
    ),
    Broken("metrics", METRICS, "{}", None, "neither"),
    Broken("metrics", METRICS, '{"test": null, "dev": null}', None, "neither"),
    *(
        Broken("manifest", SOURCES, text)
        for text in (DEEP, "null", '{"parts": []}', '{"parts": {"a": []}}', "\0")
    ),
    *(
        Broken("metrics", METRICS, text)
        for text in (DEEP, "null", b"\xff", '{"test": {"average": ' + "1" * 400 + ', "tasks": {}}}', '"x"')
    ),
]


@pytest.mark.parametrize("row", BROKEN, ids=label)
def test_the_error_names_the_place(row: Broken, tmp_path: Path) -> None:
    check_broken(READERS, row, tmp_path)


HEALTHY: list[Healthy] = [
    ("metrics", METRICS, json.dumps(RESULTS), {"dev": 50.0, "A": 50.0, "average": 60.5, "rank": 12.0}),
    ("metrics", METRICS, '{"test": {"average": 1, "tasks": {}}}', {"average": 1.0}),
    ("manifest", SOURCES, '{"parts": {}}', {}),
]


@pytest.mark.parametrize("row", HEALTHY, ids=label)
def test_healthy_and_odd_files_are_read(row: Healthy, tmp_path: Path) -> None:
    check_healthy(READERS, row, tmp_path)


def test_every_reader_has_rows_of_both_kinds() -> None:
    assert {row.reader for row in BROKEN} == {row[0] for row in HEALTHY} == READERS.keys()

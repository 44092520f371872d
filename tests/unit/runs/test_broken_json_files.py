"""Broken JSON files of runs, data roots and tables: the error names the file, and its line or key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sts_lightning.runs.folder import RunFolder
from tests.support.broken import Broken, Healthy, Reader, check_broken, check_healthy, label, put

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
}
METRICS = "metrics.json"

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

WRONG: dict[tuple[str, str], tuple[dict[str, Any], dict[str, Any]]] = {
    ("metrics", METRICS): (
        RESULTS,
        {
            "dev": ([], "x"),
            "dev.spearman": ("3", True, None, ABSENT),
            "test.average": ("3", ABSENT),
            "test.tasks": ([], ABSENT),
            "test.tasks.A.spearman": (ABSENT,),
            "test.aggregate": (3,),
            "trained_on": (None,),
            "trained_on.0.rows": ("3", ABSENT),
            "trained_on.0.dropped": ({"why": "3"},),
            "trained_on.0.more": (1,),
            "peak_memory_bytes.host": ("3",),
        },
    ),
}
"""Values of a wrong type or out of range, by file and dotted key."""


TEXT = json.dumps(RESULTS)
DAMAGES: list[tuple[str | bytes, str]] = [
    ("", "empty"),
    ("null", "the content"),
    ("[]", "the content"),
    (TEXT[:-9], "line 1 column"),
    (TEXT + TEXT, "line 1 column"),
    (TEXT.encode("utf-16"), "utf-8"),
    (f'{{"dev": null, {TEXT[1:]}', "'dev'"),
    (f'{{"new": {{"x": NaN}}, {TEXT[1:]}', "new.x is nan"),
    (f'{{"new": [1e400], {TEXT[1:]}', "new.0 is inf"),
    (f'{{"new": {"9" * 400}, {TEXT[1:]}', "new is 999"),
    ("[" * 100_000, "nested"),
    ("{}", "neither"),
]

BROKEN = [
    *(
        Broken(reader, name, change(good, key, value), None, key.split(".")[-1] if value is ABSENT else key)
        for (reader, name), (good, keys) in WRONG.items()
        for key, values in keys.items()
        for value in values
    ),
    *(Broken("metrics", METRICS, content, None, named) for content, named in DAMAGES),
    *(Broken(reader, name, "null") for reader, name in WRONG),
]


@pytest.mark.parametrize("row", BROKEN, ids=label)
def test_the_error_names_the_place(row: Broken, tmp_path: Path) -> None:
    check_broken(READERS, row, tmp_path)


HEALTHY: list[Healthy] = [
    ("metrics", METRICS, json.dumps(RESULTS), {"dev": 50.0, "A": 50.0, "average": 60.5, "rank": 12.0}),
    ("metrics", METRICS, '{"test": {"average": 1, "tasks": {}}}', {"average": 1.0}),
]


@pytest.mark.parametrize("row", HEALTHY, ids=label)
def test_healthy_and_odd_files_are_read(row: Healthy, tmp_path: Path) -> None:
    check_healthy(READERS, row, tmp_path)

"""Broken files in folders of runs, of vectors and of data, as a table: the error names the file and line."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sts_lightning.data.fetch.manifest import read_manifest
from sts_lightning.runs.folder import RunFolder
from sts_lightning.training.stored_vectors import StoredVectors
from tests.broken import Broken, Healthy, Reader, check_broken, check_healthy, label, put


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def npz() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, a=np.ones((2, 3)))
    return buffer.getvalue()


def vectors(folder: Path, name: str, content: bytes) -> Any:
    for file, good in (("sentences.txt", b"a\nb\n"), ("vectors.npy", npy(np.ones((2, 3))))):
        put(folder / file, content if file == name else good)
    return StoredVectors(folder).encode(["a", "b"]).tolist()


def run_config(folder: Path, name: str, content: bytes) -> Any:
    put(folder / name, content)
    return RunFolder(folder).load_config().model["_target_"]


READERS: dict[str, Reader] = {
    "vectors": vectors,
    "manifest": lambda folder, name, content: read_manifest(put(folder / name, content).parent),
    "config": run_config,
    "metrics": lambda folder, name, content: RunFolder(put(folder / name, content).parent).metrics().scores,
    "history": lambda folder, name, content: RunFolder(put(folder / name, content).parent).history(),
}


CONFIG, METRICS, HISTORY, SOURCES = "config.yaml", "metrics.json", "history.csv", "sources.json"
ENCODER = "sts_lightning.models.SentenceEncoder.from_pretrained"
NPY = npy(np.ones((2, 3)))
DEEP = "[" * 100_000

BROKEN = [
    Broken("vectors", "vectors.npy", b""),
    Broken("vectors", "vectors.npy", npz(), None, "archive"),
    Broken("vectors", "vectors.npy", NPY[:-5]),
    Broken("vectors", "vectors.npy", NPY[:30]),
    Broken("vectors", "vectors.npy", b"hello"),
    Broken("vectors", "vectors.npy", npy(np.ones((2, 3), complex)), None, "complex"),
    Broken("vectors", "vectors.npy", npy(np.array([["a"], ["b"]])), None, "<U1"),
    Broken("vectors", "sentences.txt", b"", None, "empty"),
    Broken("vectors", "sentences.txt", b"a\n\xff\n", 2, "0xff"),
    Broken("vectors", "sentences.txt", b"a\nb\nc\n", None, "3 lines"),
    *(
        Broken("manifest", SOURCES, text)
        for text in (DEEP, "null", '{"parts": []}', '{"parts": {"a": []}}', "\0")
    ),
    *(
        Broken("config", CONFIG, text)
        for text in (
            *("a: [", "a: 1\na: 2\n", f"a: {'1' * 5000}", "a: !!timestamp 2026-13-45", "a: !!int x", "3"),
            *("a: !!python/object:os.x {}", "", "- 1", "a\0: 1", "\tx: 1", "model: 3\nprompt: {}\n", b"\x80"),
        )
    ),
    *(
        Broken("metrics", METRICS, text)
        for text in (DEEP, "null", b"\xff", '{"test": {"average": ' + "1" * 400 + ', "tasks": {}}}', '"x"')
    ),
    Broken("history", HISTORY, "step,loss\n1,2\nx,1\n", 3, "'x'"),
    Broken("history", HISTORY, "step,loss\n1,x\n", 2, "'x'"),
    Broken("history", HISTORY, "step,loss\n1,2,3\n", 2, "more values"),
    Broken("history", HISTORY, "step,loss\nnan,1\n", 2, "NaN"),
    Broken("history", HISTORY, "step,loss\ninf,1\n", 2, "infinity"),
    Broken("history", HISTORY, "loss\n1\n", 1, "step"),
    Broken("history", HISTORY, b"\xff,\n", 1, "0xff"),
]


@pytest.mark.parametrize("row", BROKEN, ids=label)
def test_the_error_names_the_place(row: Broken, tmp_path: Path) -> None:
    check_broken(READERS, row, tmp_path)


HEALTHY: list[Healthy] = [
    ("vectors", "sentences.txt", "\ufeffa\r\nb\r\n", [[1.0] * 3] * 2),
    ("manifest", SOURCES, '{"parts": {}}', {}),
    (
        "config",
        CONFIG,
        f"\ufeffmodel: {{_target_: {ENCODER}}}\nprompt: {{}}\nevaluation: {{}}\n",
        ENCODER,
    ),
    ("metrics", METRICS, '{"test": {"average": 1, "tasks": {}}}', {"average": 1.0}),
    ("history", HISTORY, "\ufeffstep,loss\r\n1,2\r\n2,\r\n\r\n", [{"step": 1, "loss": 2.0}, {"step": 2}]),
]


@pytest.mark.parametrize("row", HEALTHY, ids=label)
def test_healthy_and_odd_files_are_read(row: Healthy, tmp_path: Path) -> None:
    check_healthy(READERS, row, tmp_path)


def test_every_reader_has_rows_of_both_kinds() -> None:
    assert len(BROKEN) >= 30
    assert {row.reader for row in BROKEN} == {row[0] for row in HEALTHY} == READERS.keys()

"""Broken files in folders of runs, of vectors and of data, as a table: the error names the file and line."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.predictions import load_predictions
from sts_lightning.training.auxiliary.stored_vectors import StoredVectors
from tests.support.broken import Broken, Healthy, Reader, check_broken, check_healthy, label, put


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer, **{name.replace("_", "/"): np.asarray(value) for name, value in arrays.items()}
    )
    return buffer.getvalue()


def flipped(content: bytes, place: int) -> bytes:
    """Return a file with one bit changed."""
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def ckpt(**parts: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save({"state_dict": {"a": torch.ones(64)}, "global_step": 1, **parts}, buffer)
    return buffer.getvalue()


def inside(content: bytes, name: str, at: int = 0) -> int:
    """Return the place of a byte within the data of a file in an archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        info = next(info for info in archive.infolist() if info.filename.endswith(name))
    header = info.header_offset
    lengths = [int.from_bytes(content[header + at : header + at + 2], "little") for at in (26, 28)]
    return header + 30 + sum(lengths) + at


def vectors(folder: Path, name: str, content: bytes) -> Any:
    for file, good in (("sentences.txt", b"a\nb\n"), ("vectors.npy", npy(np.ones((2, 3))))):
        put(folder / file, content if file == name else good)
    return StoredVectors(folder).encode(["a", "b"]).tolist()


def run_config(folder: Path, name: str, content: bytes) -> Any:
    put(folder / name, content)
    return RunFolder(folder).load_config().model["_target_"]


def predictions(folder: Path, name: str, content: bytes) -> Any:
    found = load_predictions(RunFolder(put(folder / name, content).parent))
    return {task: [column.tolist() for column in columns] for task, columns in found.items()}


def checkpoint(folder: Path, name: str, content: bytes) -> Any:
    (folder / name).parent.mkdir()
    put(folder / name, content)
    return list(RunFolder(folder).read_checkpoint("best")["state_dict"])


READERS: dict[str, Reader] = {
    "vectors": vectors,
    "predictions": predictions,
    "checkpoint": checkpoint,
    "config": run_config,
    "history": lambda folder, name, content: RunFolder(put(folder / name, content).parent).history(),
}


CONFIG, HISTORY, PREDICTIONS = "config.yaml", "history.csv", "predictions.npz"
ENCODER = "sts_lightning.models.SentenceEncoder.from_pretrained"
SMALLEST: dict[str, Any] = {"name": "x", "data_root": "y", "model": {"_target_": ENCODER}}
SMALLEST |= {"seed": 1, "senteval_text": "raw", "dev": "stsb", "precision": "auto"}
SMALLEST |= {group: {} for group in ("prompt", "evaluation", "loss", "data", "optim", "trainer")}
BEST = "checkpoints/best.ckpt"
NPY = npy(np.ones((2, 3)))
NPZ = npz(A_cosine=[0.25, -0.5], A_gold=[1, 2])
CKPT = ckpt()

BROKEN = [
    *(Broken("predictions", PREDICTIONS, NPZ[:size]) for size in (0, len(NPZ) // 2)),
    Broken("predictions", PREDICTIONS, flipped(NPZ, inside(NPZ, "gold.npy", 60))),
    *(Broken("checkpoint", BEST, CKPT[:size]) for size in (0, len(CKPT) // 2)),
    Broken("checkpoint", BEST, flipped(CKPT, inside(CKPT, "data/0", 30))),
    Broken("vectors", "vectors.npy", b""),
    Broken("vectors", "vectors.npy", npy(np.array([[1.0], [np.nan]])), None, "line 2"),
    Broken("vectors", "vectors.npy", npz(a=np.ones((2, 3))), None, "must be a matrix of floating-point"),
    Broken("vectors", "vectors.npy", NPY[:-5]),
    Broken("vectors", "vectors.npy", npy(np.ones((2, 3), complex)), None, "floating-point"),
    Broken("vectors", "sentences.txt", b"", None, "empty"),
    Broken("vectors", "sentences.txt", b"a\n\xff\n", 2, "0xff"),
    Broken("vectors", "sentences.txt", b"a\nb\nc\n", None, "3 lines"),
    *(
        Broken("config", CONFIG, text)
        for text in (
            *("a: [", "a: 1\na: 2\n", f"a: {'1' * 5000}", "a: !!timestamp 2026-13-45", "3"),
            *("a: !!python/object:os.x {}", "", "- 1", "model: 3\nprompt: {}\n", b"\x80"),
        )
    ),
    Broken("history", HISTORY, "step,loss\n1,2\nx,1\n", 3, "'x'"),
    Broken("history", HISTORY, "step,loss\n1,x\n", 2, "'x'"),
    Broken("history", HISTORY, "step,loss\n1,2,3\n", 2),
    Broken("history", HISTORY, "step,loss\nnan,1\n", 2, "NaN"),
    Broken("history", HISTORY, "loss\n1\n", 2, "step"),
    Broken("history", HISTORY, b"\xff,\n", 1, "0xff"),
    Broken("history", HISTORY, "step,loss\n1,2\n,3\n", 3, "step"),
    Broken("history", HISTORY, 'step,loss\n1,"2\n', 2),
    Broken("history", HISTORY, "step,loss\n1,2\0\n", 2),
]


@pytest.mark.parametrize("row", BROKEN, ids=label)
def test_the_error_names_the_place(row: Broken, tmp_path: Path) -> None:
    check_broken(READERS, row, tmp_path)


HEALTHY: list[Healthy] = [
    ("predictions", PREDICTIONS, NPZ, {"A": [[0.25, -0.5], [1, 2]]}),
    ("checkpoint", BEST, CKPT, ["a"]),
    ("vectors", "sentences.txt", "\ufeffa\r\nb\r\n", [[1.0] * 3] * 2),
    (
        "config",
        CONFIG,
        "\ufeff" + yaml.safe_dump(SMALLEST),
        ENCODER,
    ),
    ("history", HISTORY, "step,loss\n1,2\n2,0.", [{"step": 1, "loss": 2.0}]),
    ("history", HISTORY, "\ufeffstep,loss\r\n1,2\r\n2,\r\n\r\n", [{"step": 1, "loss": 2.0}, {"step": 2}]),
]


@pytest.mark.parametrize("row", HEALTHY, ids=label)
def test_healthy_and_odd_files_are_read(row: Healthy, tmp_path: Path) -> None:
    check_healthy(READERS, row, tmp_path)


def test_every_reader_has_rows_of_both_kinds() -> None:
    assert {row.reader for row in BROKEN} == {row[0] for row in HEALTHY} == READERS.keys()

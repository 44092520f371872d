from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sts_lightning.core.errors import CheckpointError
from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.data.table import Table
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.runs.predictions import (
    check_same_texts,
    found_on,
    load_predictions,
    save_predictions,
)


def table(labels: list[float]) -> object:
    texts = [str(label) for label in labels]
    return Table({"sentence1": texts, "sentence2": texts, "label": labels})


def test_round_trip(tmp_path: Path) -> None:
    tasks = [STSTask("A", {"x": table([1, 2]), "y": table([3])}), STSTask("B", {"test": table([4, 5])})]  # type: ignore[dict-item]
    cosines = [np.array([0.1, 0.2]), np.array([0.3]), np.array([0.4, 0.5])]
    save_predictions(RunFolder(tmp_path), tasks, found_on(tasks, cosines))
    found = load_predictions(RunFolder(tmp_path))
    assert list(found) == ["A", "B"]
    assert [column.tolist() for column in found["A"]] == [[0.1, 0.2, 0.3], [1, 2, 3]]
    assert [column.tolist() for column in found["B"]] == [[0.4, 0.5], [4, 5]]


def test_missing_and_broken_files(tmp_path: Path) -> None:
    RunFolder(tmp_path).config_file.touch()
    with pytest.raises(CheckpointError, match="the run has no test report"):
        load_predictions(RunFolder(tmp_path))
    (RunFolder(tmp_path).predictions_file).write_bytes(b"PK\x03\x04 half a file")
    with pytest.raises(CheckpointError, match="is broken"):
        load_predictions(RunFolder(tmp_path))


def test_predictions_on_other_texts_of_a_task(tmp_path: Path) -> None:
    def save(name: str, texts: list[str], labels: list[float], text: str | None = None) -> RunFolder:
        run = RunFolder(tmp_path / name)
        run.path.mkdir()
        pairs = Table({"sentence1": texts, "sentence2": texts[::-1], "label": labels})
        tasks = [STSTask("mine", {"test": pairs})]
        save_predictions(run, tasks, found_on(tasks, [np.array([0.1, 0.2, 0.3])]))
        run.save_metrics(RunMetrics({"average": 1.0, "tasks": {}}, details={"senteval_text": text}))
        return run

    one = save("one", ["a", "b", "c"], [0.0, 2.5, 5.0])
    check_same_texts([one, save("scaled", ["a", "b", "c"], [0.0, 0.5, 1.0])])
    check_same_texts([one, save("prepared", ["a", "b", "C"], [0.0, 0.5, 1.0], "prepared")])
    for other in (
        save("text", ["a", "b", "C"], [0.0, 0.5, 1.0]),
        save("gold", ["a", "b", "c"], [1.0, 0.5, 0.0]),
    ):
        with pytest.raises(
            CheckpointError, match=rf"one and .*{other.path.name} were scored on different pairs"
        ):
            check_same_texts([one, other])
    np.savez(other.predictions_file, **{"mine/cosine": np.ones(3), "mine/gold": np.arange(3.0)})
    check_same_texts([one, other])  # of an earlier version
    known, unknown = RunFolder(tmp_path / "dev"), RunFolder(tmp_path / "old")
    for run, content in ((known, {"dev": "abc"}), (unknown, {})):  # without test reports
        run.path.mkdir()
        run.save_metrics(RunMetrics(None, {"spearman": 1.0}, {"content": content}))
    check_same_texts([known, unknown])


PREDICTIONS = "predictions.npz"


def test_an_array_in_place_of_an_archive(tmp_path: Path) -> None:
    with (tmp_path / PREDICTIONS).open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(CheckpointError, match="is broken"):
        load_predictions(RunFolder(tmp_path))

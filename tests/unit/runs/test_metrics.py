from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.core.errors import CheckpointError, TrainingError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics, read_metrics

TEST = {"average": 71.0, "tasks": {"A": {"spearman": 70.0}, "B": {"score": 72.0}}}


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    metrics = RunMetrics(TEST, {"spearman": 80.5, "pearson": 81.0}, {"wall_seconds": 3.5, "seed": 1})
    RunFolder(tmp_path).save_metrics(metrics)
    found = read_metrics(path)
    assert found == metrics
    assert found.score == 80.5
    assert found.scores == {"dev": 80.5, "A": 70.0, "B": 72.0, "average": 71.0}
    assert (found.total_seconds, found.peak_memory_gb) == (3.5, None)


def test_an_evaluation_is_scored_by_its_average(tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    RunFolder(tmp_path).save_metrics(
        RunMetrics(TEST, details={"peak_memory_bytes": {"host": 2e9, "cuda": 3e9}})
    )
    found = read_metrics(path)
    assert (found.score, found.peak_memory_gb) == (71.0, 3.0)
    assert "dev" not in found.scores


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"test": null}', '{"dev": {}, "test": null}', '{"test": {"average": 1}}']
)
def test_broken_files_are_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    path.write_text(text)
    with pytest.raises(CheckpointError, match=r"metrics\.json is broken"):
        read_metrics(path)
    with pytest.raises(CheckpointError, match="not a finished run"):
        read_metrics(tmp_path / "other" / "metrics.json")


def test_numbers_that_are_not_finite_are_named(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    with pytest.raises(TrainingError, match=r"not written to .*metrics\.json: test\.average is nan"):
        run.save_metrics(RunMetrics({"average": float("nan"), "tasks": {}}))
    assert not run.metrics_file.exists()

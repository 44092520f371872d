"""Records of tables."""

from __future__ import annotations

import hashlib
import json
import re
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from record_tables import (
    Record,
    Result,
    interval_lines,
    read_record,
    record_of,
    record_of_runs,
    update_record,
)
from scipy import stats

from sts_lightning.core.errors import CheckpointError, DataError, UserError
from sts_lightning.reproduce.results import collect
from sts_lightning.reproduce.table import Table
from tests.unit.reproduce.conftest import cosines as cosines
from tests.unit.reproduce.conftest import table as table


def record(scores: dict[str, float], model: str = "minilm", runs: int = 3) -> Record:
    results = [Result(row, model, runs, 3, {"average": value}) for row, value in scores.items()]
    return Record("toy", model, "by hand", results)


def test_a_record_holds_the_scores_of_the_table(
    table: Table, cosines: dict[str, list[np.ndarray]], tmp_path: Path
) -> None:
    path = tmp_path / "toy.json"
    update_record(path, record_of(collect(table, 20), "toy"))
    found = read_record(path)
    assert (found.table, found.model) == ("toy", None)
    by_row = {result.row: result for result in found.results}
    assert list(by_row) == ["plain", "a|b_c", "absent", "untuned"]
    scores = [100 * stats.spearmanr(each, GOLD).statistic for each in cosines["plain"]]
    assert by_row["plain"].scores["average"] == pytest.approx(statistics.mean(scores), abs=1e-4)
    assert [run.scores["dev"] for run in by_row["plain"].single] == [81.0, 82.0]
    assert (by_row["absent"].runs, by_row["absent"].planned, by_row["absent"].scores) == (0, 2, {})


def test_a_row_keeps_runs_whose_folders_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "toy.json"
    update_record(path, record({"a": 1.0, "b": 2.0}))
    fewer = record({"a": 9.0}, runs=1).results + record({"b": 3.0, "c": 4.0}).results
    update_record(path, replace(record({}), results=fewer))
    found = {result.row: (result.runs, result.scores["average"]) for result in read_record(path).results}
    assert found == {"a": (3, 1.0), "b": (3, 3.0), "c": (3, 4.0)}
    update_record(path, replace(record({}), results=[replace(fewer[0], planned=5)]))
    assert [result.runs for result in read_record(path).results] == [1]  # of another plan


@pytest.mark.parametrize("text", ["{", '{"table": "x"}'])
def test_a_broken_record_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(DataError) as error:
        read_record(path)
    assert error.value.path == path


GOLD = np.repeat(np.arange(5.0), 20)


def sweep(folder: Path, noise: float, seeds: int = 3) -> list[float]:
    """Write the finished runs of a sweep; return their scores."""
    scores = []
    for seed in range(1, seeds + 1):
        run = folder / f"run{seed}"
        run.mkdir(parents=True)
        cosines = np.tanh((GOLD + noise * np.random.default_rng(seed).normal(size=len(GOLD))) / 10)
        score = 100 * float(stats.spearmanr(cosines, GOLD).statistic)
        metrics = {
            "dev": {"spearman": 80.0 + seed},
            "test": {"tasks": {"STSB": {"spearman": score}}, "average": score},
            "seed": seed,
            "wall_seconds": 90.0,
            "hardware": "a processor, 2 cores",
            "versions": {"torch": "2.13.0"},
            "training": {"precision": "32-true", "max_length": 128, "quantization": "none"},
        }
        (run / "metrics.json").write_text(json.dumps(metrics))
        (run / "config.yaml").write_text(yaml.safe_dump({"seed": seed, "loss": {"_target_": "a.B"}}))
        np.savez(run / "predictions.npz", **{"STSB/cosine": cosines, "STSB/gold": GOLD})
        scores.append(score)
    return scores


def test_the_runs_of_a_sweep_are_recorded(tmp_path: Path) -> None:
    scores = sweep(tmp_path / "runs", 2.0)
    records = tmp_path / "records"
    records.mkdir()
    update_record(
        records / "mine.json",
        record_of_runs(tmp_path / "runs", "mine", "make mine", records / "predictions"),
    )
    record = read_record(records / "mine.json")
    (row,) = record.results
    assert (record.table, record.command, row.row, row.runs) == ("mine", "make mine", "mine", 3)
    assert row.scores["average"] == pytest.approx(statistics.mean(scores), abs=1e-4)
    first = row.single[0]
    assert (first.seed, first.minutes, first.hardware) == (1, 1.5, "a processor, 2 cores")
    assert (first.scores["dev"], first.versions) == (81.0, {"torch": "2.13.0"})
    assert "precision=32-true" in first.training
    content = (tmp_path / "runs" / "run1" / "predictions.npz").read_bytes()
    assert first.sha256 == hashlib.sha256(content).hexdigest()
    assert (records / "predictions" / f"{first.sha256[:16]}.npz").read_bytes() == content


def test_intervals_are_those_of_the_kept_predictions(tmp_path: Path) -> None:
    """Against a bootstrap that resamples pairs and sorts again."""
    keep, found = tmp_path / "predictions", {}
    for name, noise in (("one", 2.0), ("two", 6.0)):
        found[name] = sweep(tmp_path / "runs" / name, noise)
        update_record(tmp_path / f"{name}.json", record_of_runs(tmp_path / "runs" / name, name, "x", keep))
    (line,) = interval_lines("one", "two", tmp_path, 400)
    mean, spread, low, high, difference, below, above = map(float, re.findall(r"-?\+?\d+\.\d+", line))
    assert mean == pytest.approx(statistics.mean(found["one"]), abs=0.006)
    assert spread == pytest.approx(statistics.stdev(found["one"]), abs=0.006)
    assert difference == pytest.approx(mean - statistics.mean(found["two"]), abs=0.02)
    rng = np.random.default_rng(5)
    draws = {"one": [], "two": []}
    loaded = {
        name: [np.load(tmp_path / "runs" / name / f"run{n}" / "predictions.npz") for n in (1, 2, 3)]
        for name in draws
    }
    for _ in range(400):
        rows = rng.integers(len(GOLD), size=len(GOLD))
        for name, runs in loaded.items():
            values = [stats.spearmanr(run["STSB/cosine"][rows], GOLD[rows]).statistic for run in runs]
            draws[name].append(100 * np.mean(values))
    assert [low, high] == pytest.approx(np.percentile(draws["one"], (2.5, 97.5)), abs=2)
    differences = np.subtract(draws["one"], draws["two"])
    assert [below, above] == pytest.approx(np.percentile(differences, (2.5, 97.5)), abs=2)


def test_what_was_not_kept_has_no_interval(tmp_path: Path) -> None:
    update_record(tmp_path / "old.json", record({"a": 1.0}))
    assert list(interval_lines("old", None, tmp_path)) == ["a: 1.00, 3 of 3 runs; recorded as means only."]
    with pytest.raises(UserError, match="old: recorded as means only"):
        next(interval_lines("old", "old", tmp_path))
    sweep(tmp_path / "runs", 2.0)
    update_record(tmp_path / "new.json", record_of_runs(tmp_path / "runs", "new", "make new"))
    (line,) = interval_lines("new", None, tmp_path)
    assert line.endswith("the predictions of seed 1 were not kept. make new makes them again.")
    (kept,) = record_of_runs(tmp_path / "runs", "new", "make new", tmp_path / "predictions").results
    np.savez(tmp_path / "predictions" / f"{str(kept.single[0].sha256)[:16]}.npz", a=GOLD)
    with pytest.raises(DataError, match="their hash differs"):
        list(interval_lines("new", None, tmp_path))


def test_a_sweep_that_has_not_finished_is_not_recorded(tmp_path: Path) -> None:
    sweep(tmp_path, 2.0, seeds=2)
    (tmp_path / "run2" / "metrics.json").unlink()
    with pytest.raises(CheckpointError, match="run2 is not a finished run"):
        record_of_runs(tmp_path, "mine", "make mine")

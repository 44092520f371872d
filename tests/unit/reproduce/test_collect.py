"""Tables of hand-written runs."""

from __future__ import annotations

import csv
import io
import json
import statistics

import numpy as np
import pytest
from scipy import stats

from sts_lightning.evaluation.leaks import LeakedRows, SetLeaks, hash_scores
from sts_lightning.reproduce.collect import collect
from sts_lightning.reproduce.plan import Cell, Table
from sts_lightning.reproduce.tables import csv_text, markdown
from tests.unit.reproduce.conftest import GOLD, lines


def test_differences_ceiling_and_interval(table: Table, scores: dict[str, list[float]]) -> None:
    collected = collect(table, 200)
    difference = collected.differences["plain"]["a|b_c"]["average"]
    assert difference.estimate == pytest.approx(
        statistics.mean(scores["a|b_c"]) - statistics.mean(scores["plain"])
    )
    assert difference.low < difference.estimate < difference.high
    interval = collected.intervals["plain"]["average"]
    assert interval.low < statistics.mean(scores["plain"]) < interval.high
    # Five equal groups: the best cut is between two and three of them, found by trying all cuts.
    cuts = [100 * stats.spearmanr(cut <= GOLD, GOLD).statistic for cut in range(1, 5)]
    assert lines(markdown(collected), "binary ceiling")[0][2] == f"{max(cuts):.2f}"


def test_one_broken_file_among_many(table: Table, scores: dict[str, list[float]]) -> None:
    runs = table.seed_runs(Cell("plain", "minilm"))
    (runs[1].folder / "metrics.json").write_text('{"dev": ')
    (runs[2].folder / "predictions.npz").write_bytes(b"PK\3\4")
    text = markdown(collect(table, 50))
    ours = lines(text, "plain")[1]
    assert ours[3] == f"{statistics.mean([scores['plain'][0], scores['plain'][2]]):.2f}"
    assert ours[-4] == "2 of 3"
    assert f"Left out: {runs[1].folder / 'metrics.json'} is broken: Expecting value: line 1" in text
    assert f"Left out: {runs[2].folder / 'predictions.npz'} is broken" in text
    assert (runs[1].folder / "metrics.json").read_text() == '{"dev": '


def test_average_on_clean_pairs(
    table: Table, scores: dict[str, list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "clean pairs" not in markdown(collect(table, 50))  # these are none of the published test sets
    kinds = np.array(["", "exact", "", "near"] * 25)
    leaks = LeakedRows("public sets", 0.8, {"STSB": SetLeaks(hash_scores(GOLD), kinds)})
    monkeypatch.setattr("sts_lightning.reproduce.collect.published_leaks", lambda: leaks)
    monkeypatch.setattr("sts_lightning.reproduce.tables.published_leaks", lambda: leaks)
    runs = table.seed_runs(Cell("plain", "minilm"))
    expected = []
    for run in runs[1:]:
        with np.load(run.run_folder.predictions_file) as arrays:
            expected.append(100 * stats.spearmanr(arrays["STSB/cosine"][::2], GOLD[::2]).statistic)
    runs[0].run_folder.predictions_file.unlink()
    text = markdown(collect(table, 50))
    header = next(line for line in text.splitlines() if line.startswith("|")).split(" | ")
    column = header.index("clean pairs") - len(header)
    ours = lines(text, "plain")[1]
    assert ours[column] == f"{statistics.mean(expected):.2f} (2 of 3)"
    assert lines(text, "absent")[1][column] == ""
    assert "the average on the test pairs that do not occur in public sets" in text
    cells = [
        row for row in csv.DictReader(io.StringIO(csv_text(collect(table, 50)))) if row["system"] == "plain"
    ]
    assert float(cells[-1]["value"]) == pytest.approx(statistics.mean(expected))
    assert cells[-1]["column"] == "clean pairs"
    metrics = json.loads(runs[1].run_folder.metrics_file.read_text())
    metrics["test"]["aggregate"] = "mean"  # a score of another kind
    runs[1].run_folder.metrics_file.write_text(json.dumps(metrics))
    ours = lines(markdown(collect(table, 50)), "plain")[1]
    assert ours[column] == f"{expected[1]:.2f} (1 of 3)"


def test_an_interval_is_that_of_all_runs(table: Table, scores: dict[str, list[float]]) -> None:
    one, two, _ = table.seed_runs(Cell("plain", "minilm"))
    one.run_folder.predictions_file.unlink()
    collected = collect(table, 20)
    assert "plain" not in collected.intervals
    assert "a|b_c" in collected.intervals
    assert collected.problems == ["plain: predictions of 2 of 3 runs, so no intervals."]
    arrays = dict(np.load(two.run_folder.predictions_file))
    np.savez(one.run_folder.predictions_file, **{name: values[:-1] for name, values in arrays.items()})
    collected = collect(table, 20)  # on other pairs than the other runs
    assert "plain" not in collected.intervals
    assert collected.problems == ["plain: the runs were not scored on the same test pairs."]


def test_means_over_subsets_have_no_intervals(table: Table, scores: dict[str, list[float]]) -> None:
    for run in table.seed_runs(Cell("plain", "minilm")):
        metrics = json.loads(run.run_folder.metrics_file.read_text())
        metrics["test"]["aggregate"] = "mean"
        run.run_folder.metrics_file.write_text(json.dumps(metrics))
    collected = collect(table, 20)
    assert "plain" not in collected.intervals
    assert "a|b_c" not in collected.differences["plain"]
    assert all("was scored with aggregate=mean" in problem for problem in collected.problems)

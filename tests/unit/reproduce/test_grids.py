"""A collected table as text_tables of text."""

from __future__ import annotations

import csv
import io
import json
import statistics

import yaml

from sts_lightning.reproduce.collect import collect
from sts_lightning.reproduce.plan import Cell, Table
from sts_lightning.reproduce.tables import csv_text, latex, markdown
from tests.unit.reproduce.conftest import lines


def test_published_stands_next_to_ours(table: Table, scores: dict[str, list[float]]) -> None:
    text = markdown(collect(table, 50))
    published, ours = lines(text, "plain")[:2]
    mean, spread = statistics.mean(scores["plain"]), statistics.stdev(scores["plain"])
    assert published[:4] == ["plain", "published", "80.00", "80.50"]
    assert ours[:5] == ["plain", "here", f"{mean:.2f}", f"{mean:.2f}", f"{spread:.2f}"]
    assert ours[-4:] == ["3 of 3", "STS-B dev", "unknown", "runs"]
    assert lines(text, "closed")[0][:4] == ["closed", "published", "60.00", "60.50"]
    assert len(lines(text, "closed")) == 1
    assert (published[-1], lines(text, "closed")[0][-1]) == ("runs", "cited")
    assert "- Cited, not run: closed (a service)." in text


def test_std_and_interval_are_of_the_shown_column(table: Table, scores: dict[str, list[float]]) -> None:
    runs = [run.run_folder for run in table.seed_runs(Cell("plain", "minilm"))]
    for run, memory in zip(runs, (1, 2, 6), strict=True):
        metrics = json.loads(run.metrics_file.read_text())
        metrics["peak_memory_bytes"] = {"host": memory * 10**9}
        run.metrics_file.write_text(json.dumps(metrics))
    of_set = collect(table, 50).intervals["plain"]["STSB"]
    expected = {
        # mean and sample standard deviation by hand; the interval of the test scores is none of theirs
        "memory": ["3.00", f"{7**0.5:.2f}"],
        "dev": ["81.00", "1.00"],
        "std": [f"{statistics.stdev(scores['plain']):.2f}"],
    }
    for column, cells in expected.items():
        table.spec.columns, table.spec.published = [column], {}
        text = markdown(collect(table, 50))
        assert lines(text, "plain")[0][:-3] == ["plain", "here", *cells, "3 of 3"], column
        assert "interval" not in text.split("Difference")[0]
        assert "binary ceiling" not in text
    table.spec.columns = ["STSB"]
    text = markdown(collect(table, 50))
    assert lines(text, "plain")[0][4] == f"{of_set.low:.2f} to {of_set.high:.2f}"
    assert "`interval`: 95 % of STSB, " in text
    assert "`binary ceiling`" in text
    table.spec.columns = ["memory", "rank"]  # a std would be of which?
    assert lines(markdown(collect(table, 50)), "plain")[0][2:5] == ["3.00", "missing", "3 of 3"]


def test_dev_pairs_are_those_of_the_runs(table: Table, scores: dict[str, list[float]]) -> None:
    assert "Dev pairs that select the weights: STS-B dev." in markdown(collect(table, 50))
    (last,) = table.seed_runs(Cell("plain", "minilm"))[2:]
    last.run_folder.config_file.write_text(yaml.safe_dump({"data": {"dev_path": "a/own.csv"}, "dev": "stsb"}))
    text = markdown(collect(table, 50))
    assert lines(text, "plain")[1][-3] == "STS-B dev / own.csv"
    assert "weights, different between rows: STS-B dev (plain; a|b_c), or own.csv (plain)." in text


def test_missing_rows_are_missing_and_never_zero(table: Table, scores: dict[str, list[float]]) -> None:
    collected = collect(table, 50)
    assert lines(markdown(collected), "absent")[1][1:4] == ["here", "missing", "missing"]
    assert "0.00" not in [cell for row in lines(markdown(collected), "absent") for cell in row]
    assert "absent & here & missing & missing" in latex(collected)
    row = next(
        row
        for row in csv.DictReader(io.StringIO(csv_text(collected)))
        if row["source"] == "here" and row["system"] == "absent"
    )
    assert (row["value"], row["runs"], row["planned"]) == ("", "0", "3")


def test_nothing_finished_yet(table: Table) -> None:
    text = markdown(collect(table, 50))
    assert lines(text, "plain")[1][1:4] == ["here", "missing", "missing"]
    assert "binary ceiling" not in text

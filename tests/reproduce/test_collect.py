"""Tables of hand-written runs."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from scipy import stats

from sts_lightning.reproduce.collect import collect
from sts_lightning.reproduce.formats import markdown
from sts_lightning.reproduce.plan import Cell, Table
from sts_lightning.reproduce.spec import Search
from tests.reproduce.conftest import GOLD, lines, spec


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


@pytest.mark.slow
def test_errors_of_a_search_are_in_the_notes(tmp_path: Path) -> None:
    searched = spec()
    searched.search = Search({"low": ["optim.lr=1e-9"], "high": ["optim.lr=1e-3"]})
    table = Table(searched, tmp_path)
    for run in table.search_runs(Cell("plain", "minilm")).values():
        run.folder.mkdir()
        run.run_folder.metrics_file.write_text("{")
    text = markdown(collect(table, 50))
    broken = next(iter(table.search_runs(Cell("plain", "minilm")).values())).run_folder.metrics_file
    assert text.count(f"Left out: {broken} is broken: Expecting") == 1

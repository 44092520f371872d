"""Tables of hand-written runs."""

from __future__ import annotations

import csv
import io
import json
import multiprocessing
import statistics
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from sts_lightning.cli.reproduce_table import write_report
from sts_lightning.reproduce import formats
from sts_lightning.reproduce.collect import collect
from sts_lightning.reproduce.formats import csv_text, latex, markdown
from sts_lightning.reproduce.page import page
from sts_lightning.reproduce.plan import Cell, Planned, Table
from sts_lightning.reproduce.spec import Requirements, RowSpec, Search, TableSpec
from tests.conftest import CONF

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452")
GOLD = np.repeat(np.arange(5.0), 20)


def spec() -> TableSpec:
    return TableSpec(
        title="Toy & <others>",
        needs=Requirements(hours=1),
        seeds=[1, 2, 3],
        models=["minilm"],
        columns=["STSB", "average"],
        rows={
            "plain": RowSpec(["loss=cosent"]),
            "a|b_c": RowSpec(["loss=pearson"]),
            "absent": RowSpec(["loss=mse"]),
        },
        published={
            "minilm": {"plain": [80.0, 80.5], "absent": [70.0, 70.5]},
            "cited": {"closed": [60.0, 60.5]},
        },
        baselines=["plain"],
    )


def finish(run: Planned, noise: float, seed: int) -> float:
    """Write what a finished run leaves; returns its score."""
    cosines = GOLD + noise * np.random.default_rng(seed).normal(size=len(GOLD))
    score = 100 * float(stats.spearmanr(cosines, GOLD).statistic)
    (run.folder / "plots").mkdir(parents=True)
    (run.folder / "plots" / "curves.png").write_bytes(PNG)
    metrics = {
        "dev": {"spearman": 80.0 + seed},
        "test": {"tasks": {"STSB": {"spearman": score}}, "average": score},
        "peak_memory_bytes": {"host": 2_000_000_000},
    }
    (run.folder / "metrics.json").write_text(json.dumps(metrics))
    np.savez(run.folder / "predictions.npz", **{"STSB/cosine": cosines, "STSB/gold": GOLD})
    return score


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(spec(), tmp_path, CONF)


@pytest.fixture
def scores(table: Table) -> dict[str, list[float]]:
    """Of the first two rows, which have finished."""
    return {
        name: [finish(run, noise, n) for n, run in enumerate(table.seed_runs(Cell(name, "minilm")))]
        for name, noise in (("plain", 2.0), ("a|b_c", 1.0))
    }


def lines(text: str, name: str) -> list[list[str]]:
    """The cells of the rows of that name in a Markdown table."""
    rows = [line.replace("\\|", "¦").strip("| ").split(" | ") for line in text.splitlines() if "|" in line]
    return [row for row in rows if row[0] == name.replace("|", "¦")]


def test_published_stands_next_to_ours(table: Table, scores: dict[str, list[float]]) -> None:
    text = markdown(collect(table, 50))
    published, ours = lines(text, "plain")[:2]
    mean, spread = statistics.mean(scores["plain"]), statistics.stdev(scores["plain"])
    assert published[:4] == ["plain", "published", "80.00", "80.50"]
    assert ours[:5] == ["plain", "here", f"{mean:.2f}", f"{mean:.2f}", f"{spread:.2f}"]
    assert ours[-3:] == ["3 of 3", "STS-B dev", "unknown"]
    assert lines(text, "closed")[0][:4] == ["closed", "published", "60.00", "60.50"]
    assert len(lines(text, "closed")) == 1


def test_what_was_read_is_named(table: Table, scores: dict[str, list[float]]) -> None:
    old = "senteval_text=raw, text_edit=none, max_length=that of training"
    for text in (markdown(collect(table, 50)), latex(collect(table, 50)).replace("\\_", "_")):
        assert f"Dev and test sentences: {old}." in text
    for run in table.seed_runs(Cell("plain", "minilm")):
        path = run.folder / "metrics.json"
        read = {"senteval_text": "prepared", "text_edit": "prompt_bert", "max_length": 512}
        path.write_text(json.dumps({**json.loads(path.read_text()), **read}))
    new = "senteval_text=prepared, text_edit=prompt_bert, max_length=512"
    assert f"{new} (plain), or {old} (a|b_c)" in markdown(collect(table, 50))


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


def test_csv_has_unrounded_values(table: Table, scores: dict[str, list[float]]) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(collect(table, 50)))))
    ours = next(
        row for row in rows if (row["system"], row["source"], row["column"]) == ("a|b_c", "here", "average")
    )
    assert float(ours["value"]) == pytest.approx(statistics.mean(scores["a|b_c"]), rel=1e-12)
    assert float(ours["std"]) == pytest.approx(statistics.stdev(scores["a|b_c"]), rel=1e-12)


def test_one_broken_file_among_many(table: Table, scores: dict[str, list[float]]) -> None:
    runs = table.seed_runs(Cell("plain", "minilm"))
    (runs[1].folder / "metrics.json").write_text('{"dev": ')
    (runs[2].folder / "predictions.npz").write_bytes(b"PK\3\4")
    text = markdown(collect(table, 50))
    ours = lines(text, "plain")[1]
    assert ours[3] == f"{statistics.mean([scores['plain'][0], scores['plain'][2]]):.2f}"
    assert ours[-3] == "2 of 3"
    assert f"Left out: {runs[1].folder / 'metrics.json'} is broken (JSONDecodeError" in text
    assert f"Left out: {runs[2].folder / 'predictions.npz'} is broken" in text
    assert (runs[1].folder / "metrics.json").read_text() == '{"dev": '


def test_errors_of_a_search_are_in_the_notes(tmp_path: Path) -> None:
    searched = spec()
    searched.search = Search({"low": ["optim.lr=1e-9"], "high": ["optim.lr=1e-3"]})
    table = Table(searched, tmp_path, CONF)
    for run in table.search_runs(Cell("plain", "minilm")).values():
        run.folder.mkdir()
        run.run_folder.metrics_file.write_text("{")
    text = markdown(collect(table, 50))
    broken = next(iter(table.search_runs(Cell("plain", "minilm")).values())).run_folder.metrics_file
    assert text.count(f"Left out: {broken} is broken (JSONDecodeError") == 1


def test_latex_has_its_letters_escaped(table: Table, scores: dict[str, list[float]]) -> None:
    text = latex(collect(table, 50))
    assert r"a\textbar{}b\_c & here" in text
    assert (
        r"\caption{Toy \& \textless{}others\textgreater{}. Dev and test sentences: senteval\_text=raw" in text
    )
    body = text[: text.index(r"\caption")].split(r"\midrule")[1]
    assert {line.count(" & ") for line in body.splitlines() if line.endswith(r"\\")} == {8}


def test_a_wide_table_is_shrunk_to_the_page(
    table: Table, scores: dict[str, list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    collected = collect(table, 50)
    monkeypatch.setattr(formats, "PAGE", 10_000)
    assert "resizebox" not in latex(collected)
    monkeypatch.setattr(formats, "PAGE", 10)
    shrunk = latex(collected)
    assert shrunk.count(r"\resizebox{\linewidth}{!}{%") == shrunk.count(r"\begin{tabular}")
    assert shrunk.count(r"\end{tabular}}") == shrunk.count(r"\begin{tabular}")


class Checker(HTMLParser):
    """Finds whether tags are closed in order, and what a page asks from elsewhere."""

    void = frozenset({"meta", "img", "br", "link"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.sources += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page_needs_nothing_else(table: Table, scores: dict[str, list[float]]) -> None:
    text = page(collect(table, 50), "by hand")
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    assert len(checker.sources) == 6  # a plot of each finished run
    assert all(source.startswith("data:image/png;base64,") for source in checker.sources)
    assert "Toy &amp; &lt;others&gt;" in text
    assert "a|b_c: 3 of 3 runs" in text
    assert "absent: missing" in text


def test_a_smaller_scale_says_so(tmp_path: Path) -> None:
    from sts_lightning.reproduce.spec import Scale

    text = markdown(collect(Table(spec(), tmp_path, CONF, "tiny_bert", Scale(hours=1)), 50))
    assert "at the scale of tiny_bert, with shorter schedules: not the published models" in text
    assert lines(text, "plain")[0][:3] == ["plain", "published", "80.00"]


def _collect(folder: Path, done: multiprocessing.Queue[str]) -> None:
    table = Table(spec(), folder, CONF)
    for _ in range(2):
        text = write_report(table, "toy", 20)
    done.put(text)


def test_two_collect_at_once(table: Table, scores: dict[str, list[float]]) -> None:
    context = multiprocessing.get_context("spawn")
    done: multiprocessing.Queue[str] = context.Queue()
    processes = [context.Process(target=_collect, args=(table.root, done)) for _ in range(2)]
    for process in processes:
        process.start()
    texts = {done.get(timeout=120) for _ in processes}
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    folder = table.root / "tables"
    assert texts == {(folder / "toy.md").read_text()}
    assert sorted(path.name for path in folder.iterdir()) == ["toy.csv", "toy.html", "toy.md", "toy.tex"]

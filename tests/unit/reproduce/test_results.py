"""Tables of hand-written runs."""

from __future__ import annotations

import csv
import io
import json
import statistics

import numpy as np
import pytest
import yaml
from scipy import stats

from sts_lightning.data.counts import TrainingCount
from sts_lightning.reproduce.leak_free import LeakedRows, SetLeaks, hash_scores
from sts_lightning.reproduce.results import collect, latex, markdown, write_report
from sts_lightning.reproduce.table import Table
from tests.unit.reproduce.conftest import GOLD, finish, folders, lines

Cosines = dict[str, list[np.ndarray]]


def spearman(cosines: np.ndarray) -> float:
    return 100 * float(stats.spearmanr(cosines, GOLD).statistic)


def test_published_stands_beside_ours_in_the_order_of_the_file(table: Table, cosines: Cosines) -> None:
    text = markdown(collect(table, 50))
    published, ours = lines(text, "plain")[:2]
    scores = [spearman(each) for each in cosines["plain"]]
    mean, spread = statistics.mean(scores), statistics.stdev(scores)
    assert published[:4] == ["plain", "published", "80.00", "80.50"]
    assert ours[:5] == ["plain", "here", f"{mean:.2f}", f"{mean:.2f}", f"{spread:.2f}"]
    assert ours[-4:] == ["2 of 2", "dev=stsb", "not trained", "runs"]
    names = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")]
    order = ["plain", "a\\|b_c", "absent", "untuned", "closed", "binary ceiling"]
    assert list(dict.fromkeys(names))[2:8] == [f"| {name}" for name in order]
    assert lines(text, "closed") == [["closed", "published", "60.00", "60.50", *[""] * 5, "cited"]]
    assert "- Cited, not run: closed (a service)." in text
    # Five equal groups: the best cut is between two and three of them, found by trying all cuts.
    cuts = [100 * stats.spearmanr(cut <= GOLD, GOLD).statistic for cut in range(1, 5)]
    assert lines(text, "binary ceiling")[0][2:4] == [f"{max(cuts):.2f}"] * 2


def test_intervals_are_paired_over_test_pairs(table: Table, cosines: Cosines) -> None:
    """Against a bootstrap that sorts every resample anew."""
    rng = np.random.default_rng(0)
    draws = {"plain": [], "difference": []}
    for _ in range(1000):
        picked = rng.integers(len(GOLD), size=len(GOLD))
        means = {
            row: np.mean([100 * stats.spearmanr(each[picked], GOLD[picked]).statistic for each in runs])
            for row, runs in cosines.items()
        }
        draws["plain"].append(means["plain"])
        draws["difference"].append(means["a|b_c"] - means["plain"])
    collected = collect(table, 1000)
    found = {
        "plain": collected.systems[0].intervals["average"],
        "difference": collected.differences["plain"]["a|b_c"]["average"],
    }
    for name, values in draws.items():
        low, high = np.percentile(values, (2.5, 97.5))
        assert (found[name].low, found[name].high) == pytest.approx((low, high), abs=0.15 * (high - low))
    exact = [statistics.mean(map(spearman, cosines[row])) for row in ("a|b_c", "plain")]
    assert found["difference"].estimate == pytest.approx(exact[0] - exact[1])
    assert lines(markdown(collected), "a|b_c")[-1][-1].endswith("] *")


def test_std_and_interval_are_of_the_shown_column(table: Table, cosines: Cosines) -> None:
    table.spec.published = {}
    expected = {"memory": ["1.50", f"{0.5**0.5:.2f}"], "dev": ["81.50", f"{0.5**0.5:.2f}"]}
    expected["std"] = [f"{statistics.stdev(map(spearman, cosines['plain'])):.2f}"]
    for column, cells in expected.items():
        table.spec.columns = [column]
        text = markdown(collect(table, 50))
        assert lines(text, "plain")[0][: 2 + len(cells)] == ["plain", "here", *cells]
        assert "interval |" not in text
    table.spec.columns = ["memory", "rank"]  # a std would be of which?
    assert lines(markdown(collect(table, 50)), "plain")[0][2:5] == ["1.50", "missing", "2 of 2"]


def test_missing_rows_are_missing_and_never_zero(table: Table) -> None:
    text = markdown(collect(table, 50))
    assert lines(text, "absent")[1][1:] == ["here", "missing", "missing", "", "0 of 2", "", "", "runs"]
    assert lines(text, "untuned")[1][5] == "0 of 1"
    assert "binary ceiling" not in text
    assert "Seeds" not in text


def test_rows_that_are_hardly_comparable_are_named(table: Table) -> None:
    for row, settings in (("plain", {}), ("a|b_c", {"dev": "stsb_clean", "version": "1.1"})):
        for seed, run in enumerate(folders(table, row), 1):
            finish(run, 1.0, seed, **settings)
    text = markdown(collect(table, 50)).replace("\\|", "|")
    for sentence in (
        "Dev and test sentences: senteval_text=prepared, text_edit=official, max_length=no limit, "
        "precision=32-true, quantization=none.",
        "Training: max_length=64, precision=bf16-mixed, quantization=4bit.",
        "Seeds: 1, 2.",
        "Dev pairs that select the weights, different between rows: dev=stsb (plain), or dev=stsb_clean "
        "(a|b_c).",
        "Versions of sts-lightning, different between rows: 1.0 (plain), or 1.1 (a|b_c).",
    ):
        assert f"- {sentence}\n" in text
    assert lines(text, "plain")[1][-3] == "dev=stsb"


def test_one_version_is_no_note(table: Table, cosines: Cosines) -> None:
    assert "Versions" not in markdown(collect(table, 50))


def test_an_evaluation_has_the_dev_pairs_of_the_weights(table: Table) -> None:
    table.spec.report = ["precision=16-true"]
    table = Table("toy", table.spec, table.root)
    jobs, _ = table.jobs()
    for seed, run in enumerate(folders(table, "plain"), 1):
        finish(run, 1.0, seed)
        run.config_file.write_text(yaml.safe_dump({"ckpt": "its folder"}))
    text = markdown(collect(table, 50))
    assert lines(text, "plain")[1][-3] == "unknown"  # the folders of the trainings are not here
    for run in jobs:
        if run.start is not None:
            start = jobs[run.start].run_folder
            start.path.mkdir(exist_ok=True)
            start.config_file.write_text(yaml.safe_dump({"dev": "stsb_clean"}))
    assert lines(markdown(collect(table, 50)), "plain")[1][-3] == "dev=stsb_clean"


def test_other_data_than_published_is_marked(table: Table) -> None:
    whole = TrainingCount("a.csv", "pairs", 40, 40)
    part = TrainingCount("b.csv", "triplets", 15_000, 20_000, {"data.limit": 5_000})
    first, second = folders(table, "plain")
    finish(first, 1.0, 1, counts=[part, whole])
    finish(second, 1.0, 2, counts=[None, whole])
    finish(folders(table, "a|b_c")[0], 1.0, 1, counts=[whole])
    collected = collect(table, 20)
    text = markdown(collected)
    for form in (text, latex(collected)):
        assert "(on other data than published)" in form
        assert "15,000 of 20,000 triplets, then 40 of 40 pairs / unknown, then 40 of 40 pairs" in form
    assert text.count("On other data than published: ") == 1
    assert "plain, 15,000 of 20,000 triplets (5,000 dropped: data.limit)." in text
    assert lines(text, "a|b_c")[1][-2] == "40 of 40 pairs"


def test_average_on_clean_pairs(table: Table, cosines: Cosines, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "clean pairs" not in markdown(collect(table, 50))  # these are none of the published test sets
    kinds = np.array(["", "exact", "", "near"] * 25)
    leaks = LeakedRows("public sets", 0.8, {"STSB": SetLeaks(hash_scores(GOLD), kinds)})
    monkeypatch.setattr("sts_lightning.reproduce.results.published_leaks", lambda: leaks)
    text = markdown(collect(table, 50))
    column = (
        next(line for line in text.splitlines() if line.startswith("|")).split(" | ").index("clean pairs")
    )
    clean = [100 * stats.spearmanr(each[::2], GOLD[::2]).statistic for each in cosines["plain"]]
    assert lines(text, "plain")[1][column] == f"{statistics.mean(clean):.2f}"
    assert lines(text, "absent")[1][column] == ""
    assert "the average on the test pairs that do not occur in public sets" in text


def test_one_broken_file_among_many(table: Table, cosines: Cosines) -> None:
    first, second = folders(table, "plain")
    first.metrics_file.write_text('{"dev": ')
    second.predictions_file.write_bytes(b"PK\3\4")
    text = markdown(collect(table, 50))
    assert lines(text, "plain")[1][2] == f"{spearman(cosines['plain'][1]):.2f}"
    assert f"Left out: {first.metrics_file} is broken: Expecting value: line 1" in text
    assert f"Left out: {second.predictions_file} is broken" in text
    assert "plain: predictions" not in text


def test_an_interval_is_that_of_all_runs(table: Table, cosines: Cosines) -> None:
    one, two = folders(table, "plain")
    one.predictions_file.unlink()
    collected = collect(table, 20)
    assert [bool(system.intervals) for system in collected.systems[:2]] == [False, True]
    assert collected.problems == ["plain: predictions of 1 of 2 runs, so no intervals."]
    arrays = dict(np.load(two.predictions_file))
    np.savez(one.predictions_file, **{name: values[:-1] for name, values in arrays.items()})
    assert collect(table, 20).problems == ["plain: the runs were not scored on the same test pairs."]
    for run in folders(table, "a|b_c"):
        metrics = json.loads(run.metrics_file.read_text())
        metrics["test"]["aggregate"] = "mean"
        run.metrics_file.write_text(json.dumps(metrics))
    assert "was scored with aggregate=mean" in collect(table, 20).problems[-1]


def test_a_small_scale_names_the_published_models(table: Table) -> None:
    text = markdown(collect(Table("toy", table.spec, table.root, "smollm2_135m"), 50))
    assert "at the scale of smollm2_135m, with shorter schedules: not the published models" in text
    assert lines(text, "plain")[0][:2] == ["plain", "published, minilm"]


def test_a_table_says_what_it_mixes(table: Table) -> None:
    table.spec.mixes = "the code's rate with our batch"
    assert "It mixes the code's rate with our batch." in markdown(collect(table, 50))
    assert "mixes" not in markdown(collect(Table("toy", table.spec, table.root, "minilm"), 50))


def test_a_report_has_three_forms(table: Table, cosines: Cosines) -> None:
    text = write_report(table, 20)
    files = {path.suffix: path.read_text() for path in (table.root / "tables").iterdir()}
    assert files[".md"] == text
    assert "### Toy & &lt;others>\n" in text
    rows = list(csv.DictReader(io.StringIO(files[".csv"])))
    ours = next(row for row in rows if (row["system"], row["source"]) == ("a|b_c", "here"))
    scores = [spearman(each) for each in cosines["a|b_c"]]
    assert float(ours["average"]) == pytest.approx(statistics.mean(scores), rel=1e-12)
    assert float(ours["std"]) == pytest.approx(statistics.stdev(scores), rel=1e-12)
    assert ours["training"] == "max_length=64, precision=bf16-mixed, quantization=4bit"
    assert next(row["why"] for row in rows if row["system"] == "closed") == "a service"
    assert r"a|b\_c & here & " in files[".tex"]
    assert files[".tex"].startswith("% Dev and test sentences: ")
    assert "% Toy & <others>\n" in files[".tex"]
    assert {
        line.count(" & ") for line in files[".tex"].split("% Diff")[0].splitlines() if line.endswith(r"\\")
    } == {9}


def test_markdown_finds_nothing_in_what_runs_say(table: Table, cosines: Cosines) -> None:
    collected = collect(table, 50)
    collected.problems.append("runs/x\n\n| <img src=y> [z](w)")
    collected.systems[0].name = "`a` <b>\n# c"
    text = markdown(collected)
    assert "\n- Left out: runs/x  | &lt;img src=y> [z]\\(w)\n" in text
    assert "| \\`a\\` &lt;b> # c | here |" in text

"""A collected table as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import statistics

import pytest

from sts_lightning.core.text import one_line
from sts_lightning.reproduce.collect import collect
from sts_lightning.reproduce.plan import Table
from sts_lightning.reproduce.tables import _cells, _tex, csv_text, latex, markdown, write_report


def test_csv_has_unrounded_values(table: Table, scores: dict[str, list[float]]) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(collect(table, 50)))))
    ours = next(
        row for row in rows if (row["system"], row["source"], row["column"]) == ("a|b_c", "here", "average")
    )
    assert float(ours["value"]) == pytest.approx(statistics.mean(scores["a|b_c"]), rel=1e-12)
    assert float(ours["std"]) == pytest.approx(statistics.stdev(scores["a|b_c"]), rel=1e-12)
    assert {(row["system"], row["row"], row["why"]) for row in rows} == {
        *((name, "runs", "") for name in ("plain", "a|b_c", "absent")),
        ("closed", "cited", "a service"),
        ("binary ceiling", "", ""),
    }


def test_latex_has_its_letters_escaped(table: Table, scores: dict[str, list[float]]) -> None:
    text = latex(collect(table, 50))
    assert r"a\textbar{}b\_c & here" in text
    assert (
        r"\caption{Toy \& \textless{}others\textgreater{}. Dev and test sentences: text\_edit=unknown" in text
    )
    body = text[: text.index(r"\caption")].split(r"\midrule")[1]
    assert {line.count(" & ") for line in body.splitlines() if line.endswith(r"\\")} == {9}


@pytest.mark.parametrize(
    ("text", "note", "cell"),
    [
        ("a|b", "a|b", r"a\|b"),
        (r"a\|b", r"a\\|b", r"a\\\|b"),
        ("`a` <b>", "`a` &lt;b>", r"\`a\` &lt;b>"),
        ("<script>x</script>", "&lt;script>x&lt;/script>", "&lt;script>x&lt;/script>"),
        ("[x](http://y)", r"[x]\(http://y)", r"[x]\(http://y)"),
        ("one\n\n# two\r\nthree", "one  # two three", "one  # two three"),
        ("&lt; & &#60;", "&amp;lt; & &amp;#60;", "&amp;lt; & &amp;#60;"),
        ("80.12 [79.00, 81.20] *", "80.12 [79.00, 81.20] *", "80.12 [79.00, 81.20] *"),
    ],
)
def test_markdown_finds_nothing_in_what_runs_say(text: str, note: str, cell: str) -> None:
    assert one_line(text) == note
    assert _cells([text]) == [cell]


def test_reports_of_a_broken_file_stay_on_their_line(table: Table, scores: dict[str, list[float]]) -> None:
    collected = collect(table, 50)
    collected.problems.append("runs/x\n\n| <img src=y> [z](w)")
    assert "\n- Left out: runs/x  | &lt;img src=y> [z]\\(w)\n" in markdown(collected)
    assert "### Toy & &lt;others>\n" in markdown(collected)


def test_latex_takes_no_cell_for_an_option(table: Table, scores: dict[str, list[float]]) -> None:
    assert _tex("a\n\nb `c`") == r"a  b \textasciigrave{}c\textasciigrave{}"
    collected = collect(table, 50)
    collected.systems[0].name = "[5em]plain"
    collected.systems[1].name = "*plain"
    text = latex(collected)
    assert "\n{}[5em]plain & " in text
    assert "\n{}*plain & " in text
    assert "\\\\\n[" not in text


def test_a_report_has_three_forms(table: Table, scores: dict[str, list[float]]) -> None:
    text = write_report(table, "toy", 20)
    folder = table.root / "tables"
    assert sorted(path.name for path in folder.iterdir()) == ["toy.csv", "toy.md", "toy.tex"]
    assert (folder / "toy.md").read_text() == text
    assert (folder / "toy.csv").read_text().startswith("system,source,column,value,")
    assert r"\begin{tabular}" in (folder / "toy.tex").read_text()


def test_a_table_says_what_it_mixes(table: Table, scores: dict[str, list[float]]) -> None:
    assert "mixes" not in markdown(collect(table, 50))
    table.spec.mixes = "the code's rate with our batch"
    assert "It mixes the code's rate with our batch." in markdown(collect(table, 50))
    table.model = "minilm"
    assert "mixes" not in markdown(collect(table, 50))

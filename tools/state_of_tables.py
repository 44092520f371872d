"""Write docs/reproduction.md, the state of all tables and figures, or first record a table of runs/reproduce.

python tools/state_of_tables.py [pcc_table3 [--model minilm]]
python tools/state_of_tables.py --intervals stage2_minilm        those of a record with kept predictions
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from sts_lightning.config.folders import files_of
from sts_lightning.core.errors import counted
from sts_lightning.core.files import read_json, write_atomic
from sts_lightning.evaluation.statistics import Predictions, paired_difference, score_intervals
from sts_lightning.reproduce.results import collect
from sts_lightning.reproduce.table import CITED, Table, TableSpec, compared_column, load_spec, open_table
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.predictions import load_predictions

RECORDS = Path(__file__).resolve().parents[1] / "docs" / "results"

HEAD = """# Tables and figures of the papers

Made by `make docs-reproduction`; do not edit. Sources: the specifications in `conf/reproduce`, and the
records of finished runs in `docs/results`, which `python tools/state_of_tables.py TABLE` adds to.

- runs and agrees in order: all published rows that run here have their runs, and every pair of them is in the
  published order.
- runs: some rows have results. In brackets: pairs of rows in the published order, of those compared. A pair
  is compared by the average (else the dev score, the only column, or the mean of all columns) if all
  published models that have both rows order them alike. The scale is named if the models are not
  the published ones; "recorded as means only": without the single runs, so that no interval follows from it.
- planned only: it runs with the command, and no results have been recorded. -: it has no results.

`MODEL=minilm` (in `make`) or `--model minilm` runs the rows of any table on a laptop, `smollm2_135m`
Tables 3, 5 and 8 of Pcc-tuning with a small decoder. Its plan shows memory and time.
"""

DRAW = "python examples/paper_figures.py"

OTHERS = {
    "Pcc-tuning, Table 4": ("templates, which are conf/prompt/{eol,sth,sum}.yaml", "-", ""),
    "Pcc-tuning, Figure 1": ("a drawing; its bound", "-", "sts-lightning ceiling"),
    "Pcc-tuning, Figure 2": ("a drawing of the two stages", "-", ""),
    "Pcc-tuning v1, Table 3": ("templates, which are conf/prompt/{eol,sth,sum}.yaml", "-", ""),
    "Pcc-tuning v1, Figure 1": ("a drawing; its bound", "-", "sts-lightning ceiling"),
    "Pcc-tuning v1, Figure 2": ("a drawing of the two stages", "-", ""),
    "STS-Regression, Table 2": ("hyper-parameters, which are those of regression_table1", "-", ""),
    "STS-Regression, Table 7": ("pairs of SICK-R that leak", "-", "sts-lightning leaks --list leaks.csv"),
    "STS-Regression, Figure 1": ("a drawing of the Siamese network", "-", ""),
    "STS-Regression, Figure 2": ("Translated ReLU and Smooth K2", "runs", f"{DRAW} regression_figure2"),
    "STS-Regression, Figure 3": ("a drawing of the two steps", "-", ""),
    "Rank reduction, Table 6": ("hyper-parameters, which are those of rank_table8", "-", ""),
    "Rank reduction, Table 7": ("hyper-parameters, which are those of rank_table2", "-", ""),
    "Rank reduction, Figure 1": ("rank and score of systems", "runs", f"{DRAW} rank_figure1 RUN..."),
    "Rank reduction, Figure 2": ("rank and score over steps", "runs", f"{DRAW} rank_figure2 RUN..."),
    "Rank reduction, Figure 3": (
        "alignment and uniformity over steps",
        "runs (MiniLM)",
        f"{DRAW} rank_figure3 RUN...",
    ),
    "Rank reduction, Figure 4": ("probing tasks over steps", "runs (MiniLM)", f"{DRAW} rank_figure4 RUN..."),
    "Rank reduction, Figure 5": ("rank against dev score by phase", "runs", f"{DRAW} rank_figure5 RUN..."),
    "Rank reduction, Figure 6": ("rank and deviation over seeds", "runs", f"{DRAW} rank_figure6 RUN..."),
    "Rank reduction, Figure 7": ("ends of phase 2 of several seeds", "runs", f"{DRAW} rank_figure7 RUN..."),
}
"""Tables without a specification, and figures: what they show, their state, and the command."""

PAPERS = ("Pcc-tuning", "Pcc-tuning v1", "STS-Regression", "Rank reduction")

Record = Mapping[str, Any]
"""A file of `RECORDS`: ``table``, ``model`` (the scale), ``source``, and ``results`` by row and model."""


def state_page(records: Sequence[Record]) -> str:
    """Return the page as Markdown."""
    lines = {name: ["", *map(str, item)] for name, item in OTHERS.items()}
    mixed: dict[str, list[str]] = {}
    needs = []
    for file in files_of("reproduce"):
        spec = load_spec(file)
        parsed = re.fullmatch(r"(.+, Table \d+) \((.*)\)(.*)", spec.title)
        if parsed is None:
            continue
        states = [state for record in records if record["table"] == file for state in _states(spec, record)]
        shown = parsed[2] + parsed[3]
        lines[parsed[1]] = ["", shown, "<br>".join(states) or "planned only", f"make reproduce TABLE={file}"]
        runs = len(Table(file, spec, Path("runs")).all_runs())
        cited = len(spec.published.get(CITED, {}))
        needs.append(
            [parsed[1], f"{counted(runs, 'run')}, each {spec.needs}", ", ".join(spec.models), str(cited)]
        )
        if spec.mixes:
            mixed.setdefault(spec.mixes, []).append(parsed[1])

    def place(name: str) -> tuple[int, bool, int]:
        paper, item = name.split(", ")
        kind, number = item.split()
        return PAPERS.index(paper), kind == "Figure", int(number)

    rows = [
        [name, *lines[name][1:3], lines[name][3] and f"`{lines[name][3]}`"]
        for name in sorted(lines, key=place)
    ]
    needs.sort(key=lambda row: place(row[0]))
    mixes = [f"- {'; '.join(names)}: {what}." for what, names in mixed.items()]
    return "\n\n".join(
        [
            HEAD + "\n" + _markdown(["", "shows", "state", "command"], rows),
            "## What each needs",
            _markdown(["", "needs", "models", "rows cited, not run"], needs),
            "## Whose settings each mixes\n\n[Deviations](deviations.md) has the single ones.",
            "\n".join(mixes) + "\n",
        ]
    )


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)


def _states(spec: TableSpec, record: Record) -> Iterator[str]:
    done, planned = (sum(result[key] for result in record["results"]) for key in ("runs", "planned"))
    if done:
        agreeing, pairs = order_of(spec, record)
        words = "runs and agrees in order" if agreeing == pairs > 0 and done == planned else "runs"
        scale = f"{record['model']}, " if record["model"] else ""
        by = compared_column(spec.columns) or "the mean"
        alone = all(result.get("single") for result in record["results"] if result["runs"])
        source = record["source"] if alone else f"{record['source']}, recorded as means only"
        runs = f"{scale}{done} of {counted(planned, 'run')}"
        yield f"{words} ({agreeing} of {counted(pairs, 'pair')} by {by}; {runs}; {source})"


def order_of(spec: TableSpec, record: Record) -> tuple[int, int]:
    """Return how many pairs of rows are in the published order, of those that are compared.

    Two rows are compared if the published scores of every model that has both order them alike; scores here
    that are equal disagree.
    """
    column = compared_column(spec.columns)

    def key(scores: Mapping[str, float]) -> float | None:
        known = [scores[name] for name in ([column] if column else spec.columns) if name in scores]
        return sum(known) / len(known) if len(known) == (1 if column else len(spec.columns)) else None

    here = {(result["row"], result["model"]): key(result["scores"]) for result in record["results"]}
    signs: dict[tuple[str, str, float, float], set[int]] = {}
    for model, systems in spec.published.items():
        if model != CITED:
            scores = {row: here.get((row, model), here.get((row, record["model"]))) for row in systems}
            values = {row: key(dict(zip(spec.columns, systems[row], strict=True))) for row in systems}
            for first, second in combinations(systems, 2):
                one, other = scores[first], scores[second]
                if one is not None and other is not None:
                    place = (first, second, one, other)
                    signs.setdefault(place, set()).add(_sign(values[first], values[second]))
    compared = {place: sign for place, found in signs.items() if len(found) == 1 for sign in found if sign}
    return sum(_sign(one, other) == sign for (*_, one, other), sign in compared.items()), len(compared)


def _sign(first: float | None, second: float | None) -> int:
    assert first is not None
    assert second is not None
    return (first > second) - (first < second)


def record_of(table: Table) -> Record:
    """Return the means of the finished runs of a table."""
    collected = collect(table, resamples=1)
    results = []
    for system in collected.systems:
        if system.cell is not None:
            means = {column: system.mean(column) for column in collected.columns}
            scores = {column: round(value, 4) for column, value in means.items() if value is not None}
            counts = {"runs": len(system.runs.runs), "planned": system.planned}
            results.append({"row": system.cell.row, "model": system.cell.model, **counts, "scores": scores})
    return {"table": table.name, "model": table.scale, "source": "the run folders", "results": results}


def interval_lines(name: str, to: str | None = None, records: Path = RECORDS) -> Iterator[str]:
    """Yield mean and interval over test pairs of each row of a record whose predictions were kept.

    Args:
        name: Name of the record.
        to: Another record, whose first row all rows are compared with.
        records: Folder of the records.
    """
    baseline = None if to is None else _kept(read_json(records / f"{to}.json")["results"][0], records)
    for result in read_json(records / f"{name}.json")["results"]:
        predictions = _kept(result, records)
        if not predictions:
            yield f"{result['row']}: predictions were not kept"
            continue
        whole = score_intervals(predictions)["average"]
        text = f"{result['row']}: {whole.estimate:.2f} [{whole.low:.2f}, {whole.high:.2f}]"
        yield f"{text}; to {to} {paired_difference(predictions, baseline)['average']}" if baseline else text


def _kept(result: Mapping[str, Any], records: Path) -> list[Predictions]:
    """Return the predictions of all runs of a row; none if those of one were not kept."""
    folder, found = RunFolder(records / "predictions"), list[Predictions]()
    for run in result.get("single", []):
        folder.predictions_file = folder.path / f"{(run['sha256'] or '')[:16]}.npz"
        found += [load_predictions(folder)] if folder.predictions_file.is_file() else []
    return found if len(found) == result["runs"] else []


def main() -> None:
    """Record a table if one is named, then write the page; or print intervals."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", nargs="?", help="a file of conf/reproduce")
    parser.add_argument("--model", help="a choice of the group scale")
    parser.add_argument("--folder", type=Path, default=Path("runs/reproduce"), help="folder of the runs")
    parser.add_argument("--intervals", metavar="NAME", help="a file of docs/results")
    parser.add_argument("--to", metavar="NAME", help="another one, to compare with its first row")
    given = parser.parse_args()
    if given.intervals is not None:
        print(*interval_lines(given.intervals, given.to), sep="\n")
        return
    if given.table is not None:
        record = record_of(open_table(given.table, given.model, given.folder))
        stem = given.table if given.model is None else f"{given.table}_{given.model}"
        write_atomic(RECORDS / f"{stem}.json", json.dumps(record, indent=1) + "\n")
    records = [read_json(path) for path in sorted(RECORDS.glob("*.json"))]
    write_atomic(RECORDS.parent / "reproduction.md", state_page(records))


if __name__ == "__main__":
    main()

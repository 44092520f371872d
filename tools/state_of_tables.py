"""Write docs/reproduction.md, the state of all tables and figures: python tools/state_of_tables.py."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path

from omegaconf import OmegaConf
from record_tables import MEANS_ONLY, RECORDS, Record, Result, read_record
from sts_lightning.reproduce.figures import FIGURES
from sts_lightning.reproduce.plan import Table
from sts_lightning.reproduce.spec import CITED, RUNS, TableSpec, compared_column, load_spec

from sts_lightning.core.conf_folders import files_of
from sts_lightning.core.files import write_atomic
from sts_lightning.core.text import counted

PAGE = RECORDS.parent / "reproduction.md"

AGREES = "runs and agrees in order"
PLANNED = "planned only"
NONE = "nothing to run"

HEADER = ("", "shows", "state", "command")
NEEDS = ("", "rows", "models", "needs", "data")

HEAD = f"""# Tables and figures of the papers

Made by `make docs-reproduction`; do not edit. Sources: the specifications in `conf/reproduce`, the list of
figures, and the records of finished runs in `docs/results`, which `python tools/record_tables.py TABLE`
writes.

- {AGREES}: all published rows that run here have their runs, and every pair of them is in the
  published order.
- {RUNS}: some rows have results. In brackets: pairs of rows in the published order, of those compared. A pair
  is compared by the average (else the dev score, the only column, or the mean of all columns) if all
  published models that have both rows order them alike. The model is named if it is not a published one, and
  so is the source of the scores; "{MEANS_ONLY}": without the single runs, so that no interval follows from
  the record. A figure runs if runs that it can be drawn from are recorded.
- {PLANNED}: it runs with the command, and no results have been recorded.
- {CITED}: no row can be run. {NONE}: it has no results.

`MODEL=minilm` (in `make`) or `--model minilm` runs the rows of any table on a laptop, `smollm2_135m`
Tables 3, 5 and 8 of Pcc-tuning with a small decoder.
"""


@dataclass(frozen=True)
class Item:
    """A table or figure of a paper that no specification covers.

    Attributes:
        why: What it shows, since it has no scores.
        command: Command that shows the same here; empty if there is none.
        drawn_from: Table whose runs it is drawn from; None for an item without results.
    """

    why: str
    command: str = ""
    drawn_from: str | None = None


PAPERS = {
    "Pcc-tuning": (8, 2),
    "Pcc-tuning v1": (6, 2),
    "STS-Regression": (7, 3),
    "Rank reduction": (8, 7),
}
"""Number of tables and of figures of each paper."""

DRAWN_IN = "drawn from MiniLM ([Rank reduction](papers/rank_reduction.md)), not from BERT"

DRAWN = {
    "rank_figure3": DRAWN_IN,
    "rank_figure4": f"{DRAWN_IN}, with three tasks made from plain text by SentEval's rules: its own "
    "were not at hand",
}
"""Figures that were drawn from runs of no table, and what they mix."""

OTHERS = {
    "Pcc-tuning, Table 4": Item("templates, which are conf/prompt/{eol,sth,sum}.yaml"),
    "Pcc-tuning, Figure 1": Item("a drawing; its bound", "sts-lightning ceiling"),
    "Pcc-tuning, Figure 2": Item("a drawing of the two stages"),
    "Pcc-tuning v1, Table 3": Item("templates, which are conf/prompt/{eol,sth,sum}.yaml"),
    "Pcc-tuning v1, Figure 1": Item("a drawing; its bound", "sts-lightning ceiling"),
    "Pcc-tuning v1, Figure 2": Item("a drawing of the two stages"),
    "STS-Regression, Table 2": Item("hyper-parameters, which are those of regression_table1"),
    "STS-Regression, Table 7": Item("pairs of SICK-R that leak", "sts-lightning leaks --list leaks.csv"),
    "STS-Regression, Figure 1": Item("a drawing of the Siamese network"),
    "STS-Regression, Figure 3": Item("a drawing of the two steps"),
    "Rank reduction, Table 6": Item("hyper-parameters, which are those of rank_table8"),
    "Rank reduction, Table 7": Item("hyper-parameters, which are those of rank_table2"),
    "Rank reduction, Figure 5": Item(
        "rank against dev score by phase, plots/rank_against_dev.png of each run with callbacks=rank_monitor",
        "python train.py experiment=simcse_unsup callbacks=rank_monitor",
        drawn_from="rank_table2",
    ),
}
"""Tables and figures without a specification, by paper and number."""

PARAMETERS = {
    "bert_base": "110 M",
    "bert_large": "335 M",
    "glove": "word vectors",
    "jina_v2": "137 M",
    "llama2_7b": "7 B",
    "llama2_7b_prefix": "7 B",
    "llama7b": "7 B",
    "minilm": "22 M",
    "mistral7b": "7 B",
    "nomic_v1": "137 M",
    "opt6_7b": "6.7 B",
    "roberta_base": "125 M",
    "roberta_large": "355 M",
}
"""Number of parameters of the models of the tables."""


@dataclass(frozen=True)
class Order:
    """Agreement of the order of rows with the published one.

    Attributes:
        agreeing: Number of pairs of rows that are in the published order.
        pairs: Number of pairs that both have results and that all published models order alike.
        complete: Whether all published rows have all their runs.
    """

    agreeing: int
    pairs: int
    complete: bool

    @property
    def agrees(self) -> bool:
        """Whether every row has its runs, and every pair is in the published order."""
        return self.complete and self.agreeing == self.pairs > 0


@dataclass(frozen=True)
class Line:
    """A table or figure on the page.

    Attributes:
        paper: Name of the paper.
        number: ``Table 1``, ``Figure 2``.
        cells: What it shows, its state and its command.
        needs: Rows, models, hardware and data; empty for what does not run.
        mixes: Whose settings it mixes.
    """

    paper: str
    number: str
    cells: tuple[str, str, str]
    needs: tuple[str, str, str, str] = ("", "", "", "")
    mixes: str = ""

    @property
    def name(self) -> str:
        """Paper and number."""
        return f"{self.paper}, {self.number}"

    @property
    def place(self) -> tuple[int, bool, int]:
        """Place on the page: papers, tables before figures, numbers."""
        kind, number = self.number.split()
        return list(PAPERS).index(self.paper), kind == "Figure", int(number)


def state_page(records: Path) -> str:
    """Return the page as Markdown.

    Args:
        records: Folder of the records.

    Raises:
        ConfigError: A specification is invalid.
        DataError: A record is broken.
    """
    found = [read_record(path) for path in sorted(records.glob("*.json"))]
    specs = _tables()
    of_tables = {name: [record for record in found if record.table == name] for name in specs}
    lines = [
        *(_table_line(name, spec, of_tables[name]) for name, spec in specs.items()),
        *_figure_lines(of_tables),
        *_other_lines(of_tables),
    ]
    lines.sort(key=lambda line: line.place)
    mixed: dict[str, list[str]] = {}
    for line in lines:
        if line.mixes:
            mixed.setdefault(line.mixes, []).append(line.name)
    parts = [
        HEAD + "\n" + _markdown(HEADER, [(line.name, *line.cells) for line in lines]),
        "## What each needs\n\nRows that run, and those that are cited (`sts-lightning reproduce list` says why).",
        _markdown(NEEDS, [(line.name, *line.needs) for line in lines if any(line.needs)]),
        "## Whose settings each mixes\n\n[Deviations](deviations.md) has the single ones.",
        "\n".join(f"- {'; '.join(names)}: {what}." for what, names in mixed.items()),
    ]
    return "\n\n".join(parts) + "\n"


def _markdown(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in lines)


def _parse(title: str) -> tuple[str, str, str] | None:
    """Split a title into paper, number and content; None for one that is not of a paper."""
    match = re.fullmatch(r"(.+), ((?:Table|Figure) \d+) \((.*)\)(.*)", title)
    if match is None or match[1] not in PAPERS:
        return None
    return match[1], match[2], match[3] + match[4]


def _tables() -> dict[str, TableSpec]:
    specs = {name: load_spec(path) for name, path in files_of("reproduce").items()}
    return {name: spec for name, spec in specs.items() if _parse(spec.title) is not None}


def _table_line(name: str, spec: TableSpec, records: list[Record]) -> Line:
    parsed = _parse(spec.title)
    assert parsed is not None
    table = Table(spec, Path("runs"))
    cells = [cell for cell in table.cells if spec.rows[cell.row].shown]
    models = dict.fromkeys(cell.model for cell in cells if cell.model is not None)
    shown = len({cell.row for cell in cells})
    cited = len(spec.published.get(CITED, {}))
    return Line(
        *parsed[:2],
        (parsed[2], _state(spec, records) if cells else CITED, f"`make reproduce TABLE={name}`"),
        (
            f"{shown} run{f', {cited} cited' if cited else ''}",
            ", ".join(f"{model} ({PARAMETERS[model]})" for model in models),
            f"{counted(table.count(), 'run')}, each {spec.needs}",
            ", ".join(_data(spec)),
        ),
        spec.mixes,
    )


def _state(spec: TableSpec, records: list[Record]) -> str:
    """Return the state of a table by each of its records, the one with the published models first."""
    told = [record for record in records if any(result.runs for result in record.results)]
    told.sort(key=lambda record: (record.model is not None, str(record.model)))
    return "<br>".join(_state_of_record(spec, record) for record in told) or PLANNED


def _state_of_record(spec: TableSpec, record: Record) -> str:
    order = order_of(spec, record)
    done = sum(result.runs for result in record.results)
    planned = sum(result.planned for result in record.results)
    scale = "" if record.model is None else f"{record.model}, "
    pairs = (
        f"{order.agreeing} of {counted(order.pairs, 'pair')} by {compared_column(spec.columns) or 'the mean'}"
    )
    runs = f"{scale}{done} of {counted(planned, 'run')}"
    alone = any(result.runs and not result.single for result in record.results)
    source = f"{record.source}, {MEANS_ONLY}" if alone else record.source
    return f"{AGREES if order.agrees else RUNS} ({pairs}; {runs}; {source})"


def _data(spec: TableSpec) -> list[str]:
    """Return the data of all runs of a table: what they train on, then what they are tested on."""
    train: dict[str, None] = {}
    tests: dict[str, None] = {}
    trained = [*(run.overrides for run in spec.before.values())]
    trained += [row.overrides for row in spec.rows.values() if row.trains]
    for overrides in [*trained, *(row.overrides for row in spec.rows.values() if not row.trains)]:
        given = {text.partition("=")[0]: text.partition("=")[2] for text in (*spec.overrides, *overrides)}
        if overrides in trained:
            train[given.get("data") or _data_of(given.get("experiment", ""))] = None
        tests[{"transfer": "transfer tasks", "mteb": "MTEB"}.get(given.get("suite", ""), "STS tasks")] = None
    if all(not row.shown for row in spec.rows.values() if row.trains):
        tests.pop("STS tasks", None)  # only preparations are trained, and their scores are not shown
    return [*train, *tests]


@cache
def _data_of(experiment: str) -> str:
    """Return the choice of the group data of an experiment, by its defaults."""
    path = files_of("experiment")[experiment] if experiment else files_of("")["train"]
    defaults = OmegaConf.to_container(OmegaConf.load(path))
    assert isinstance(defaults, dict)
    parents = []
    for entry in defaults.get("defaults", []):
        if isinstance(entry, dict):
            for key, value in entry.items():
                if key in ("override /data", "data"):
                    return str(value)
        elif entry != "_self_" and experiment:
            parents.append(str(entry))
    return _data_of(parents[0] if parents else "")


def _figure_lines(of_tables: dict[str, list[Record]]) -> list[Line]:
    lines = []
    for name, spec in FIGURES.items():
        parsed = _parse(spec.title)
        assert parsed is not None
        table = re.search(r"--table (\w+)", spec.commands[-1])
        runs = spec.drawn_from == "nothing" or name in DRAWN or _recorded(of_tables, table and table[1])
        command = "<br>".join(f"`{command}`" for command in spec.commands)
        lines.append(
            Line(
                *parsed[:2],
                (parsed[2], RUNS if runs else PLANNED, command),
                ("", "", spec.needs, ""),
                DRAWN.get(name, ""),
            )
        )
    return lines


def _other_lines(of_tables: dict[str, list[Record]]) -> list[Line]:
    lines = []
    for title, item in OTHERS.items():
        paper, number = title.split(", ")
        state = NONE
        if item.drawn_from is not None:
            state = RUNS if _recorded(of_tables, item.drawn_from) else PLANNED
        command = f"`{item.command}`" if item.command else ""
        lines.append(Line(paper, number, (item.why, state, command)))
    return lines


def _recorded(of_tables: dict[str, list[Record]], table: str | None) -> bool:
    records = of_tables.get(table or "", [])
    return any(result.runs for record in records for result in record.results)


def order_of(spec: TableSpec, record: Record) -> Order:
    """Compare the order of the rows with the published one.

    Two rows are compared if the published scores of every model that has both order them alike; scores here
    that are equal disagree.

    Args:
        spec: Specification of the table.
        record: Scores of its rows.
    """
    here = {(result.row, result.model): result for result in record.results}
    column = compared_column(spec.columns)
    complete = True
    signs: dict[tuple[str, str, str | None, str | None], set[int]] = {}
    for model, systems in spec.published.items():
        if model == CITED:
            continue
        found: dict[str, Result] = {}
        for row in systems:
            if record.model is not None and row in spec.rows and not spec.rows[row].scaled:
                continue
            result = here.get((row, model)) or here.get((row, record.model)) or here.get((row, None))
            if result is None or result.runs < result.planned:
                complete = False
            if result is not None and _key(result.scores, spec.columns, column) is not None:
                found[row] = result
        for first, second in combinations(found, 2):
            published = [
                _key(dict(zip(spec.columns, systems[row], strict=True)), spec.columns, column)
                for row in (first, second)
            ]
            place = (first, second, found[first].model, found[second].model)
            signs.setdefault(place, set()).add(_sign(published[0], published[1]))
    agreeing = pairs = 0
    for (first, second, model1, model2), published_signs in signs.items():
        if len(published_signs) != 1 or 0 in published_signs:
            continue
        pairs += 1
        values = [
            _key(here[place].scores, spec.columns, column) for place in ((first, model1), (second, model2))
        ]
        agreeing += {_sign(values[0], values[1])} == published_signs
    return Order(agreeing, pairs, complete)


def _key(scores: dict[str, float], columns: Sequence[str], column: str | None) -> float | None:
    if column is not None:
        return scores.get(column)
    if any(name not in scores for name in columns):
        return None
    return sum(scores[name] for name in columns) / len(columns)


def _sign(first: float | None, second: float | None) -> int:
    assert first is not None
    assert second is not None
    return (first > second) - (first < second)


if __name__ == "__main__":
    write_atomic(PAGE, state_page(RECORDS))

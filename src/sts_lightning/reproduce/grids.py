"""A collected table as grids of text, the input of every format."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sts_lightning.data.leaked_rows import CLEAN as CLEAN_PAIR
from sts_lightning.data.leaked_rows import published_leaks
from sts_lightning.evaluation.bootstrap import Interval
from sts_lightning.reproduce.collect import UNTRAINED, Collected, System, rank_summary
from sts_lightning.reproduce.spec import compared_column

MISSING = "missing"

CLEAN = "clean pairs"
"""Column of the average on the test pairs that occur in no public training set."""


@dataclass(frozen=True)
class Grid:
    """Text in rows and columns.

    Attributes:
        title: Heading.
        header: Names of the columns.
        rows: Cells of each row, one per column.
        words: Number of leading columns that hold words; the others hold numbers.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1


def grids(collected: Collected) -> list[Grid]:
    """Return the grids: scores, differences, other models' published scores, ranks, choices by dev score."""
    found = [_scores(collected), *_differences(collected)]
    return [
        grid for grid in (*found, _elsewhere(collected), _ranks(collected), _searches(collected)) if grid.rows
    ]


def notes(collected: Collected) -> list[str]:
    """Return the notes needed to read the table."""
    table = collected.table
    text = []
    if table.model is not None:
        text.append(
            f"Run at the scale of {table.model}, with shorter schedules: not the published models, whose "
            "scores have a table of their own, to compare rankings, not values."
        )
    scores = "scores x 100, " if "average" in collected.columns else ""
    text.append(f"`here`: {scores}mean over seeds.")
    main, interval = _spread_columns(collected)
    if interval:
        text.append(f"`interval`: 95 % of {main}, bootstrap over test pairs.")
    text += setting_notes(collected)
    if any(system.clean for system in collected.systems):
        text.append(clean_note())
    if any(_ceilings(collected)):
        text.append(
            "`binary ceiling`: the best Spearman of a scorer with two values on each set, ties as in the "
            "gold scores. A row above it tells more than similar from dissimilar."
        )
    cited = [f"{system.name} ({system.why})" for system in collected.systems if system.cell is None]
    if cited:
        text.append(f"Cited, not run: {'; '.join(cited)}.")
    for system in collected.systems:
        if system.differing:
            told = "; ".join(f"{count} ({count.reasons or count.source})" for count in system.differing)
            text.append(f"On other data than published: {system.name}, {told}.")
    unknown = [system.name for system in collected.systems if system.data_unknown]
    if unknown:
        text.append(
            f"Data unknown, since a run of an earlier version does not state it: {', '.join(unknown)}."
        )
    return text + [f"Left out: {problem}" for problem in collected.problems]


def clean_note() -> str:
    """Return the note on the column of scores on clean pairs."""
    leaks = published_leaks()
    kinds = np.concatenate([test.kinds for test in leaks.tests.values()])
    clean = int((kinds == CLEAN_PAIR).sum())
    return (
        f"`{CLEAN}`: the average on the {clean:,} of {len(kinds):,} test pairs that do not occur in "
        f"{leaks.training}, not even nearly equal. They are other pairs than all: compare rows by it, not a "
        "row with its own average."
    )


def trained_on(system: System) -> str:
    """Return the numbers of training examples of a row's runs, of each stage, next to the published ones."""
    runs = [
        ", then ".join("unknown" if stage is None else str(stage) for stage in run) or "not trained"
        for run in system.trained_on
    ]
    return " / ".join(dict.fromkeys(runs))


def _scores(collected: Collected) -> Grid:
    columns = collected.columns
    main, interval = _spread_columns(collected)
    there = {
        "std": main is not None and "std" not in columns,
        "interval": interval,
        CLEAN: any(system.clean for system in collected.systems),
    }
    more = [name for name, shown in there.items() if shown]
    header = ["", "source", *columns, *more, "runs", "selected by", "trained on", "row"]
    rows = []
    for system in collected.systems:
        for source, values in system.published.items():
            label = f"published, {source}" if source and len(collected.table.spec.models) > 1 else "published"
            cells = [_number(values.get(column)) for column in columns]
            rows.append([system.name, label, *cells, *[""] * (len(header) - 3 - len(columns)), system.mark])
        if system.cell is not None:
            rows.append([system.name, "here", *_here(collected, system, more), system.mark])
    if any(cells := _ceilings(collected)):
        rows.append(["binary ceiling", "", *cells, *[""] * (len(header) - 2 - len(columns))])
    return Grid(collected.title, header, rows, words=2)


def _spread_columns(collected: Collected) -> tuple[str | None, bool]:
    """Return the column that std and interval belong to, if there is one, and whether it has intervals."""
    main = compared_column([column for column in collected.columns if column != "std"])
    return main, any(main in found for found in collected.intervals.values())


def _ceilings(collected: Collected) -> list[str]:
    return [_number(collected.ceilings.get(column)) for column in collected.columns]


def _here(collected: Collected, system: System, more: Sequence[str]) -> list[str]:
    runs = f"{len(system.scores)} of {system.planned}"
    if not system.scores:
        return [*[MISSING] * len(collected.columns), *[""] * len(more), runs, "", ""]
    main, _ = _spread_columns(collected)
    interval = collected.intervals.get(system.name, {}).get(main or "")
    values = {
        "std": _number(system.spread(main)),
        "interval": "" if interval is None else f"{interval.low:.2f} to {interval.high:.2f}",
        CLEAN: _clean(system),
    }
    return [
        *(_number(system.mean(column)) or MISSING for column in collected.columns),
        *(values[name] for name in more),
        runs,
        " / ".join(system.setting("selected")),
        trained_on(system),
    ]


def _clean(system: System) -> str:
    """Return the mean over the runs with predictions, with their number if some have none."""
    if not system.clean:
        return ""
    text = f"{statistics.mean(system.clean):.2f}"
    known, runs = len(system.clean), len(system.scores)
    return text if known == runs else f"{text} ({known} of {runs})"


def _differences(collected: Collected) -> list[Grid]:
    found = []
    for baseline, systems in collected.differences.items():
        tasks = list(dict.fromkeys(task for row in systems.values() for task in row))
        rows = [
            [name, *(_interval(row[task]) if task in row else "" for task in tasks)]
            for name, row in systems.items()
        ]
        title = f"Difference to {baseline}, with paired bootstrap intervals (95 %) over test pairs"
        found.append(Grid(title, ["", *tasks], rows))
    return found


def _elsewhere(collected: Collected) -> Grid:
    """Return the published scores of models other than those of the rows, by model."""
    rows = [
        [model, system.name, *(_number(values.get(column)) for column in collected.columns)]
        for model in dict.fromkeys(model for system in collected.systems for model in system.elsewhere)
        for system in collected.systems
        if (values := system.elsewhere.get(model)) is not None
    ]
    return Grid("Published scores of other models", ["model", "", *collected.columns], rows, words=2)


def _ranks(collected: Collected) -> Grid:
    header: dict[str, None] = {"": None}
    rows = []
    for system in collected.systems:
        if system.ranks:
            runs = [rank_summary(run) for run in system.ranks]
            header |= dict.fromkeys(runs[0])
            rows.append([system.name, *(_mean([run[name] for run in runs], name) for name in runs[0])])
    return Grid(
        "Energy rank of the dev sentences, and its correlation with the dev score", list(header), rows
    )


def _searches(collected: Collected) -> Grid:
    candidates = list(collected.table.spec.search.candidates)
    rows = [
        [name, *(_number(scores.get(c)) or MISSING for c in candidates), chosen]
        for name, (scores, chosen) in collected.searches.items()
    ]
    how = " ".join(collected.table.spec.search.overrides)
    return Grid(
        f"Dev Spearman of the candidates ({how}); the best is that of the table",
        ["", *candidates, "chosen"],
        rows,
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _interval(interval: Interval) -> str:
    mark = " *" if interval.low > 0 or interval.high < 0 else ""
    return f"{interval}{mark}"


def _mean(values: Sequence[float | None], name: str) -> str:
    """Return the mean of the known values, with their number if some are missing."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    text = f"{statistics.mean(known):.{2 if name.startswith('r ') else 0}f}"  # a correlation, or a rank
    return text if len(known) == len(values) else f"{text} ({len(known)} of {len(values)})"


def setting_notes(collected: Collected) -> list[str]:
    """Return the notes on the settings of the runs; nothing if nothing has run."""
    named = {
        "evaluation": "Dev and test sentences",
        "selected": "Dev pairs that select the weights",
        "training": "Training",
        "seed": "Seeds",
    }
    return [note for name, what in named.items() if (note := _note(collected, name, what)) is not None]


def _note(collected: Collected, name: str, what: str) -> str | None:
    """Return one sentence on a setting of all rows; values that differ come with the names of their rows."""
    rows: dict[str, list[str]] = {}
    for system in collected.systems:
        values = [text for text in system.setting(name) if (name, text) != ("selected", UNTRAINED)]
        for text in [", ".join(values)] if name == "seed" and values else values:
            rows.setdefault(text, []).append(system.name)
    if not rows:
        return None
    if len(rows) == 1:
        return f"{what}: {next(iter(rows))}."
    parts = [f"{text} ({'; '.join(names)})" for text, names in rows.items()]
    verb = "differ" if what.endswith("s") else "differs"
    return f"{what} {verb} between rows: {', or '.join(parts)}."

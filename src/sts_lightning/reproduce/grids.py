"""A collected table as grids of text, the input of every format."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from sts_lightning.data.leaked_rows import published_leaks
from sts_lightning.evaluation.bootstrap import Interval
from sts_lightning.reproduce.collect import UNTRAINED, Collected, System, rank_summary
from sts_lightning.reproduce.spec import compared_column

MISSING = "missing"

OTHER_DATA = " (on other data than published)"
"""Mark in the heading of a table."""

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
    """Return the grids: scores, differences, ranks, choices by dev score."""
    found = [_scores(collected), *_differences(collected), _ranks(collected), _searches(collected)]
    return [grid for grid in found if grid.rows]


def notes(collected: Collected) -> list[str]:
    """Return the notes needed to read the table."""
    table = collected.table
    text = []
    if table.model is not None:
        text.append(
            f"Run at the scale of {table.model}, with shorter schedules: not the published models. Compare "
            "rankings with theirs, not values."
        )
    scores = "scores x 100, " if "average" in collected.columns else ""
    text.append(f"`here`: {scores}mean over seeds.")
    main, interval = _spread_columns(collected)
    if interval:
        text.append(f"`interval`: 95 % of {main}, bootstrap over test pairs.")
    text += setting_notes(collected)
    if any(system.clean for system in collected.systems):
        text.append(
            f"`{CLEAN}`: the average on the test pairs that do not occur in {published_leaks().training}, "
            "not even nearly equal. Compare rows by it, not a row with its own average."
        )
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
    return text + [f"Left out: {problem}" for problem in collected.problems]


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
            own = "" if system.cell is None else system.cell.model
            named = len(collected.table.spec.models) > 1 or source not in (own, "published")
            label = f"published, {source}" if source and named else "published"
            cells = [_number(values.get(column)) for column in columns]
            rows.append([system.name, label, *cells, *[""] * (len(header) - 3 - len(columns)), system.mark])
        if system.cell is not None:
            rows.append([system.name, "here", *_here(collected, system, more), system.mark])
    if any(cells := _ceilings(collected)):
        rows.append(["binary ceiling", "", *cells, *[""] * (len(header) - 2 - len(columns))])
    other = any(system.differing for system in collected.systems)
    return Grid(f"{collected.table.spec.title}{OTHER_DATA if other else ''}", header, rows, words=2)


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
        CLEAN: _mean(system.clean, len(system.scores)),
    }
    return [
        *(_number(system.mean(column)) or MISSING for column in collected.columns),
        *(values[name] for name in more),
        runs,
        " / ".join(system.setting("selected")),
        trained_on(system),
    ]


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


def _ranks(collected: Collected) -> Grid:
    header: dict[str, None] = {"": None}
    rows = []
    for system in collected.systems:
        if system.ranks:
            runs = [rank_summary(run) for run in system.ranks]
            header |= dict.fromkeys(runs[0])
            cells = [system.name]
            for name in runs[0]:
                known = [value for run in runs if (value := run[name]) is not None]
                cells.append(_mean(known, len(runs), 2 if name.startswith("r ") else 0))  # r, or a rank
            rows.append(cells)
    title = "Energy rank of the dev sentences, and its correlation with the dev score"
    return Grid(title, list(header), rows)


def _searches(collected: Collected) -> Grid:
    candidates = list(collected.table.spec.search.candidates)
    rows = [
        [name, *(_number(scores.get(c)) or MISSING for c in candidates), chosen]
        for name, (scores, chosen) in collected.searches.items()
    ]
    how = " ".join(collected.table.spec.search.overrides)
    title = f"Dev Spearman of the candidates ({how}); the best is that of the table"
    return Grid(title, ["", *candidates, "chosen"], rows)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _interval(interval: Interval) -> str:
    mark = " *" if interval.low > 0 or interval.high < 0 else ""
    return f"{interval}{mark}"


def _mean(known: Sequence[float], runs: int, digits: int = 2) -> str:
    """Return the mean of the known values, with their number if some runs have none."""
    if not known:
        return ""
    text = f"{statistics.mean(known):.{digits}f}"
    return text if len(known) == runs else f"{text} ({len(known)} of {runs})"


def setting_notes(collected: Collected) -> list[str]:
    """Return a sentence on each setting of the runs; values that differ come with the names of their rows."""
    named = {
        "evaluation": "Dev and test sentences",
        "selected": "Dev pairs that select the weights",
        "training": "Training",
        "seed": "Seeds",
    }
    text = []
    for name, what in named.items():
        rows: dict[str, list[str]] = {}
        for system in collected.systems:
            values = [value for value in system.setting(name) if (name, value) != ("selected", UNTRAINED)]
            for value in [", ".join(values)] if name == "seed" and values else values:
                rows.setdefault(value, []).append(system.name)
        if len(rows) == 1:
            text.append(f"{what}: {next(iter(rows))}.")
        elif rows:
            parts = [f"{value} ({'; '.join(names)})" for value, names in rows.items()]
            text.append(f"{what}, different between rows: {', or '.join(parts)}.")
    return text

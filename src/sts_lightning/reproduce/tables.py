"""A collected table as tables of text, the input of every format."""

from __future__ import annotations

import csv
import io
import logging
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from sts_lightning.core.files import write_atomic
from sts_lightning.core.text import one_line
from sts_lightning.evaluation.leaks import published_leaks
from sts_lightning.evaluation.statistics import Interval
from sts_lightning.reproduce.collect import UNTRAINED, Collected, System, collect, rank_summary
from sts_lightning.reproduce.plan import Table
from sts_lightning.reproduce.spec import compared_column

MISSING = "missing"

OTHER_DATA = " (on other data than published)"
"""Mark in the heading of a table."""

CLEAN = "clean pairs"
"""Column of the average on the test pairs that occur in no public training set."""


@dataclass(frozen=True)
class TextTable:
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


def text_tables(collected: Collected) -> list[TextTable]:
    """Return the tables: scores, differences, ranks, choices by dev score."""
    tables = [_scores(collected), *_differences(collected), _ranks(collected), _searches(collected)]
    return [table for table in tables if table.rows]


def notes(collected: Collected) -> list[str]:
    """Return the notes needed to read the table."""
    table = collected.table
    text = []
    if table.model is not None:
        text.append(
            f"Run at the scale of {table.model}, with shorter schedules: not the published models. Compare "
            "rankings with theirs, not values."
        )
    if table.spec.mixes and table.model is None:  # of the published models
        text.append(f"It mixes {table.spec.mixes}.")
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
            data = "; ".join(f"{count} ({count.reasons or count.source})" for count in system.differing)
            text.append(f"On other data than published: {system.name}, {data}.")
    return text + [f"Left out: {problem}" for problem in collected.problems]


def trained_on(system: System) -> str:
    """Return the numbers of training examples of a row's runs, of each stage, next to the published ones."""
    runs = [
        ", then ".join("unknown" if stage is None else str(stage) for stage in run) or "not trained"
        for run in system.trained_on
    ]
    return " / ".join(dict.fromkeys(runs))


def _scores(collected: Collected) -> TextTable:
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
            model = "" if system.cell is None else system.cell.model
            named = len(collected.table.spec.models) > 1 or source not in (model, "published")
            label = f"published, {source}" if source and named else "published"
            cells = [_number(values.get(column)) for column in columns]
            rows.append([system.name, label, *cells, *[""] * (len(header) - 3 - len(columns)), system.mark])
        if system.cell is not None:
            rows.append([system.name, "here", *_here(collected, system, more), system.mark])
    if any(cells := _ceilings(collected)):
        rows.append(["binary ceiling", "", *cells, *[""] * (len(header) - 2 - len(columns))])
    other = any(system.differing for system in collected.systems)
    return TextTable(f"{collected.table.spec.title}{OTHER_DATA if other else ''}", header, rows, words=2)


def _spread_columns(collected: Collected) -> tuple[str | None, bool]:
    """Return the column that std and interval belong to, if there is one, and whether it has intervals."""
    main = compared_column([column for column in collected.columns if column != "std"])
    return main, any(main in intervals for intervals in collected.intervals.values())


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


def _differences(collected: Collected) -> list[TextTable]:
    tables = []
    for baseline, systems in collected.differences.items():
        tasks = list(dict.fromkeys(task for row in systems.values() for task in row))
        rows = [
            [name, *(_interval(row[task]) if task in row else "" for task in tasks)]
            for name, row in systems.items()
        ]
        title = f"Difference to {baseline}, with paired bootstrap intervals (95 %) over test pairs"
        tables.append(TextTable(title, ["", *tasks], rows))
    return tables


def _ranks(collected: Collected) -> TextTable:
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
    return TextTable(title, list(header), rows)


def _searches(collected: Collected) -> TextTable:
    candidates = list(collected.table.spec.search.candidates)
    rows = [
        [name, *(_number(scores.get(c)) or MISSING for c in candidates), chosen]
        for name, (scores, chosen) in collected.searches.items()
    ]
    how = " ".join(collected.table.spec.search.overrides)
    title = f"Dev Spearman of the candidates ({how}); the best is that of the table"
    return TextTable(title, ["", *candidates, "chosen"], rows)


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
        "version": "Versions of sts-lightning",
    }
    text = []
    for name, words in named.items():
        rows: dict[str, list[str]] = {}
        for system in collected.systems:
            values = [value for value in system.setting(name) if (name, value) != ("selected", UNTRAINED)]
            for value in [", ".join(values)] if name == "seed" and values else values:
                rows.setdefault(value, []).append(system.name)
        if name == "version" and len(rows) == 1:
            continue
        if len(rows) == 1:
            text.append(f"{words}: {next(iter(rows))}.")
        elif rows:
            parts = [f"{value} ({'; '.join(names)})" for value, names in rows.items()]
            text.append(f"{words}, different between rows: {', or '.join(parts)}.")
    return text


log = logging.getLogger(__name__)

CSV_COLUMNS = (
    *("system", "source", "column", "value", "std", "low", "high", "runs", "planned"),
    *("trained_on", "other_data", "row", "why"),
    *("evaluation", "training", "seed", "version"),
)

TEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "|": r"\textbar{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "`": r"\textasciigrave{}",
        **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    }
)


def write_report(table: Table, name: str, resamples: int) -> str:
    """Print a table and write it as Markdown, LaTeX and CSV below the folder of its runs.

    Args:
        table: Table to report.
        name: Name of its file.
        resamples: Number of bootstrap resamples.

    Returns:
        The table as Markdown.
    """
    collected = collect(table, resamples)
    stem = name if table.model is None else f"{name}_{table.model}"
    folder = table.root / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    text = markdown(collected)
    Console().print(text, markup=False, soft_wrap=True)
    for suffix, content in (("md", text), ("tex", latex(collected)), ("csv", csv_text(collected))):
        write_atomic(folder / f"{stem}.{suffix}", content)
    log.info("%s", folder / f"{stem}.{{md,tex,csv}}")
    return text


def markdown(collected: Collected) -> str:
    """Return all tables and notes as Markdown."""
    parts = []
    for number, table in enumerate(text_tables(collected)):
        title = one_line(table.title)
        parts.append(f"### {title}" if number == 0 else f"{title}:")
        lines = [
            _cells(table.header),
            [*["---"] * table.words, *["---:"] * (len(table.header) - table.words)],
        ]
        lines += [_cells(row) for row in table.rows]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
        if number == 0:
            parts.append("\n".join(f"- {one_line(note)}" for note in notes(collected)))
    return "\n\n".join(parts) + "\n"


def latex(collected: Collected) -> str:
    """Return a ``table`` environment for each table, the first with notes on the settings of its rows."""
    first, *others = text_tables(collected)
    caption = ". ".join([first.title, " ".join(setting_notes(collected))]).removesuffix(". ")
    return "\n".join([_latex(first, caption), *(_latex(table, table.title) for table in others)])


def csv_text(collected: Collected) -> str:
    """Return a CSV line for each system and column, with unrounded values.

    A missing value is empty. A published value names the model that it belongs to. ``low`` and ``high``
    bound the interval over test pairs; ``other_data`` says if a run was trained on other data than published
    (``yes``, ``no`` or ``unknown``). ``row`` says whether a system ``runs`` or is ``cited``, and ``why`` it
    is cited. ``evaluation``, ``training`` and ``seed`` are the settings of its runs, ``version``
    that of the package. The column `CLEAN` is
    there where runs have predictions of the published sets.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for system in collected.systems:
        named = {"system": system.name, "row": system.mark, "why": system.why}
        for source, values in system.published.items():
            name = f"published, {source}" if source else "published"
            for column, value in values.items():
                writer.writerow(named | {"source": name, "column": column, "value": value})
        if system.cell is None:
            continue
        ours = named | {
            "source": "here",
            "runs": len(system.scores),
            "planned": system.planned,
            "trained_on": trained_on(system),
            "other_data": _other_data(system),
            **{
                name: " / ".join(system.setting(name))
                for name in ("evaluation", "training", "seed", "version")
            },
        }
        for column in collected.columns:
            interval = collected.intervals.get(system.name, {}).get(column)
            bounds = {} if interval is None else {"low": interval.low, "high": interval.high}
            numbers = {"value": system.mean(column), "std": system.spread(column), **bounds}
            writer.writerow(ours | {"column": column, **numbers})
        if system.clean:
            spread = statistics.stdev(system.clean) if len(system.clean) > 1 else None
            writer.writerow(ours | {"column": CLEAN, "value": statistics.mean(system.clean), "std": spread})
    for column, value in collected.ceilings.items():
        writer.writerow({"system": "binary ceiling", "column": column, "value": value})
    return text.getvalue()


def _other_data(system: System) -> str:
    if not system.trained_on:
        return ""
    unknown = any(None in run for run in system.trained_on)
    return "yes" if system.differing else "unknown" if unknown else "no"


def _cells(cells: Sequence[str]) -> list[str]:
    return [one_line(cell).replace("|", "\\|").replace("`", "\\`") for cell in cells]


def _latex(table: TextTable, caption: str) -> str:
    def line(cells: Sequence[str]) -> str:
        text = " & ".join(map(_tex, cells))
        return ("{}" if text.startswith(("[", "*")) else "") + text + r" \\"  # options of the \\ before

    body = "\n".join(line(row) for row in table.rows)
    columns = "l" * table.words + "r" * (len(table.header) - table.words)
    return (
        "% \\usepackage{booktabs,graphicx}\n\\begin{table}\n\\centering\n"
        # a table wider than the page is shrunk to it
        "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n"
        f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{line(table.header)}\n\\midrule\n{body}\n\\bottomrule\n"
        f"\\end{{tabular}}}}\n\\caption{{{_tex(caption)}}}\n\\end{{table}}\n"
    )


def _tex(text: str) -> str:
    return " ".join(text.splitlines()).translate(TEX)  # an empty line ends a paragraph, here the caption

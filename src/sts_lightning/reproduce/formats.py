"""A collected table as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import logging
import statistics
from collections.abc import Sequence

from rich.console import Console

from sts_lightning.files import write_atomic
from sts_lightning.reproduce.collect import Collected, System, collect
from sts_lightning.reproduce.grids import CLEAN, Grid, grids, notes, setting_notes, trained_on
from sts_lightning.reproduce.plan import Table
from sts_lightning.text import one_line

log = logging.getLogger(__name__)

CSV_COLUMNS = (
    *("system", "source", "column", "value", "std", "low", "high", "runs", "planned"),
    *("trained_on", "other_data", "row", "why"),
    *("evaluation", "training", "seed"),
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
    """Return all grids and notes as Markdown."""
    parts = []
    for number, grid in enumerate(grids(collected)):
        title = one_line(grid.title)
        parts.append(f"### {title}" if number == 0 else f"{title}:")
        lines = [_cells(grid.header), [*["---"] * grid.words, *["---:"] * (len(grid.header) - grid.words)]]
        lines += [_cells(row) for row in grid.rows]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
        if number == 0:
            parts.append("\n".join(f"- {one_line(note)}" for note in notes(collected)))
    return "\n\n".join(parts) + "\n"


def latex(collected: Collected) -> str:
    """Return a ``table`` environment for each grid, the first with notes on the settings of its rows."""
    first, *others = grids(collected)
    caption = ". ".join([first.title, " ".join(setting_notes(collected))]).removesuffix(". ")
    return "\n".join([_latex(first, caption), *(_latex(grid, grid.title) for grid in others)])


def csv_text(collected: Collected) -> str:
    """Return a CSV line for each system and column, with unrounded values.

    A missing value is empty. A published value names the model that it belongs to. ``low`` and ``high``
    bound the interval over test pairs; ``other_data`` says if a run was trained on other data than published
    (``yes``, ``no`` or ``unknown``). ``row`` says whether a system ``runs`` or is ``cited``, and ``why`` it
    is cited. ``evaluation``, ``training`` and ``seed`` are the settings of its runs. The column `CLEAN` is
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
            **{name: " / ".join(system.setting(name)) for name in ("evaluation", "training", "seed")},
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


def _latex(grid: Grid, caption: str) -> str:
    def line(cells: Sequence[str]) -> str:
        text = " & ".join(map(_tex, cells))
        return ("{}" if text.startswith(("[", "*")) else "") + text + r" \\"  # options of the \\ before

    body = "\n".join(line(row) for row in grid.rows)
    columns = "l" * grid.words + "r" * (len(grid.header) - grid.words)
    return (
        "% \\usepackage{booktabs,graphicx}\n\\begin{table}\n\\centering\n"
        # a table wider than the page is shrunk to it
        "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n"
        f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{line(grid.header)}\n\\midrule\n{body}\n\\bottomrule\n"
        f"\\end{{tabular}}}}\n\\caption{{{_tex(caption)}}}\n\\end{{table}}\n"
    )


def _tex(text: str) -> str:
    return " ".join(text.splitlines()).translate(TEX)  # an empty line ends a paragraph, here the caption

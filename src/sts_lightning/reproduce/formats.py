"""A collected table as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Sequence

from sts_lightning.reproduce.collect import Collected, System
from sts_lightning.reproduce.grids import CLEAN, Grid, grids, notes, setting_notes, trained_on
from sts_lightning.text import one_line

PAGE = 90
"""Width of a LaTeX page in characters; a wider table is shrunk to fit."""

CSV_COLUMNS = (
    *("system", "source", "column", "value", "std", "low", "high", "runs", "planned"),
    *("trained_on", "other_data", "row", "why"),
    *("evaluation", "training", "seeds"),
)


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
    found = grids(collected)
    captions = [grid.title for grid in found]
    captions[0] = ". ".join([captions[0], " ".join(setting_notes(collected))]).removesuffix(". ")
    return "\n".join(_latex(grid, caption) for grid, caption in zip(found, captions, strict=True))


def csv_text(collected: Collected) -> str:
    """Return a CSV line for each system and column, with unrounded values.

    A missing value is empty. A published value names the model that it belongs to. ``low`` and ``high``
    bound the interval over test pairs; ``other_data`` says if a run was trained on other data than published
    (``yes``, ``no`` or ``unknown``). ``row`` says whether a system ``runs`` or is ``cited``, and ``why`` it
    is cited. ``evaluation``, ``training`` and ``seeds`` are the settings of its runs. The column `CLEAN` is
    there where runs have predictions of the published sets.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for system in collected.systems:
        for source, values in [*system.published.items(), *system.elsewhere.items()]:
            for column, value in values.items():
                name = f"published, {source}" if source else "published"
                writer.writerow(
                    [system.name, name, column, value, *[""] * 7, system.mark, system.why, *[""] * 3]
                )
        if system.cell is None:
            continue
        numbers: list[list[str | float | None]] = []
        for column in collected.columns:
            interval = collected.intervals.get(system.name, {}).get(column)
            bounds = [None, None] if interval is None else [interval.low, interval.high]
            numbers.append([column, system.mean(column), system.spread(column), *bounds])
        if system.clean:
            spread = statistics.stdev(system.clean) if len(system.clean) > 1 else None
            numbers.append([CLEAN, statistics.mean(system.clean), spread, None, None])
        runs = [len(system.scores), system.planned, trained_on(system), _other_data(system)]
        settings = [" / ".join(dict.fromkeys(t)) for t in (system.texts, system.trained, system.seeds)]
        for found in numbers:
            row = [system.name, "here", *found, *runs, system.mark, system.why, *settings]
            writer.writerow(["" if value is None else value for value in row])
    for column, value in collected.ceilings.items():
        writer.writerow(["binary ceiling", "", column, value, *[""] * 12])
    return text.getvalue()


def _other_data(system: System) -> str:
    if not system.trained_on:
        return ""
    return "yes" if system.differing else "unknown" if system.data_unknown else "no"


def _cells(cells: Sequence[str]) -> list[str]:
    return [one_line(cell).replace("|", "\\|").replace("`", "\\`") for cell in cells]


def _latex(grid: Grid, caption: str) -> str:
    def line(cells: Sequence[str]) -> str:
        text = " & ".join(map(_tex, cells))
        return ("{}" if text.startswith(("[", "*")) else "") + text + r" \\"  # options of the \\ before

    body = "\n".join(line(row) for row in grid.rows)
    columns = "l" * grid.words + "r" * (len(grid.header) - grid.words)
    tabular = (
        f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{line(grid.header)}\n\\midrule\n{body}\n\\bottomrule\n"
        "\\end{tabular}"
    )
    width = sum(max(len(str(row[i])) for row in [grid.header, *grid.rows]) + 2 for i in range(len(columns)))
    if width > PAGE:
        tabular = f"\\resizebox{{\\linewidth}}{{!}}{{%\n{tabular}}}"
    return (
        f"% \\usepackage{{booktabs,graphicx}}\n\\begin{{table}}\n\\centering\n{tabular}\n"
        f"\\caption{{{_tex(caption)}}}\n\\end{{table}}\n"
    )


def _tex(text: str) -> str:
    replaced = {
        "\\": r"\textbackslash{}",
        "|": r"\textbar{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "`": r"\textasciigrave{}",
    }
    line = " ".join(text.splitlines())  # an empty line ends a paragraph, which a caption must not have
    return "".join(replaced.get(letter, f"\\{letter}" if letter in "&%$#_{}" else letter) for letter in line)

"""All runs in a folder as a self-contained HTML page: a table, and the dev curves of the best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

from sts_lightning.errors import CheckpointError
from sts_lightning.runs.charts import STYLES, Series, line_chart, swatch
from sts_lightning.runs.differences import shown
from sts_lightning.runs.html import page, sorting_script, text_table
from sts_lightning.runs.listing import COST, Group, ListedRun
from sts_lightning.text import counted

DEV = "dev/spearman"
"""Column of a history."""


def board(groups: Sequence[Group], scores: Sequence[str], root: Path, by: str) -> str:
    """Return a page with a sortable table of groups, and the curves of the first ones.

    Args:
        groups: Groups of runs, in the order of the table.
        scores: Names of the scores.
        root: Folder of the runs.
        by: Column by which the groups are sorted.
    """
    problems = [run.problem for group in groups for run in group.runs if run.problem]
    drawn, unreadable = _drawn(groups, root)
    notes = "".join(f"<li>{escape(problem)}</li>" for problem in (*problems, *unreadable))
    return page(
        f"{counted(sum(len(group.runs) for group in groups), 'run')} in {root}",
        (
            _table(groups, scores, root),
            _curves(drawn, len(groups), by),
            f"<h2>Not readable</h2>\n<ul>{notes}</ul>" if notes else "",
            sorting_script(),
        ),
    )


def _table(groups: Sequence[Group], scores: Sequence[str], root: Path) -> str:
    keys = list(dict.fromkeys(key for group in groups for key in group.settings))
    numbers = [key for key in keys if _numeric(groups, key)]
    keys = [*(key for key in keys if key not in numbers), *numbers]
    rows = [
        [
            group.name(root),
            group.state,
            " ".join(map(str, group.seeds)),
            *("" if group.settings.get(key, {}) == {} else shown(group.settings[key]) for key in keys),
            *(group.cell(column) for column in (*scores, *COST)),
        ]
        for group in groups
    ]
    header = ["run", "state", "seeds", *keys, *scores, *COST]
    return text_table(header, rows, words=3 + len(keys) - len(numbers), sortable=True)


def _numeric(groups: Sequence[Group], key: str) -> bool:
    values = [group.settings[key] for group in groups if key in group.settings]
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _drawn(groups: Sequence[Group], root: Path) -> tuple[list[Series], list[str]]:
    """Return the curves of the first groups that have some, and why others cannot be read."""
    found: list[Series] = []
    problems = []
    for group in groups:
        lines = []
        for run in group.runs:
            try:
                lines.append(_curve(run))
            except CheckpointError as error:
                problems.append(str(error))
        if any(lines) and len(found) < len(STYLES):
            settings = group.settings_text
            name = group.name(root)
            found.append(Series(f"{name}: {settings}" if settings else name, lines))
    return found, problems


def _curve(run: ListedRun) -> list[tuple[float, float]]:
    if run.problem:
        return []
    rows = run.folder.last_stage().history()
    return [(row["step"], row[DEV]) for row in rows if DEV in row and math.isfinite(row[DEV])]


def _curves(drawn: Sequence[Series], groups: int, by: str) -> str:
    if not drawn:
        return "<p>No run has a history with dev scores.</p>"
    which = f"The first {len(drawn)} of {groups} rows with curves, by {by}. " if len(drawn) < groups else ""
    entries = "".join(f"<li>{swatch(i)}{escape(one.name)}</li>" for i, one in enumerate(drawn))
    return (
        f"<h2>Dev Spearman over steps</h2>\n<p>{which}One line for each seed, without the steps of earlier "
        f"stages.</p>\n{line_chart(drawn, 'optimiser step', 'dev Spearman x 100')}\n"
        f'<ul class="legend">{entries}</ul>'
    )

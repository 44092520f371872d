"""A collected table as a self-contained HTML page."""

from __future__ import annotations

from html import escape

from sts_lightning.reproduce.collect import Collected, System
from sts_lightning.reproduce.grids import MISSING, Grid, grids, notes
from sts_lightning.runs import html
from sts_lightning.runs.charts import Estimate, estimate_chart
from sts_lightning.runs.folder import RunFolder


def page(collected: Collected, made: str = "") -> str:
    """Return a page with sortable tables, a chart, and scores, settings and plots of every finished run.

    Args:
        collected: Collected table.
        made: Command that made the page, for its footer.
    """
    first, *others = grids(collected)
    systems = [system for system in collected.systems if system.cell is not None]
    return html.page(
        collected.title,
        (
            "<ul>" + "".join(f"<li>{_code(note)}</li>" for note in notes(collected)) + "</ul>",
            _table(first),
            _chart(collected),
            *(f"<h2>{escape(grid.title)}</h2>\n{_table(grid)}" for grid in others),
            "<h2>Runs</h2>",
            *(_runs(collected, system) for system in systems),
            f"<p>{escape(made)}</p>",
            html.sorting_script(),
        ),
    )


def _table(grid: Grid) -> str:
    def cell(text: str, word: bool, best: bool) -> str:
        kinds = [*(["word"] if word else []), *(["missing"] if text == MISSING else [])]
        kind = f' class="{" ".join(kinds)}"' if kinds else ""
        return f"<td{kind}>{f'<b>{escape(text)}</b>' if best else escape(text)}</td>"

    headings = (html.heading(text or "system", i < grid.words, True) for i, text in enumerate(grid.header))
    rows = []
    for number, row in enumerate(grid.rows):
        kind = ' class="published"' if any(text.startswith("published") for text in row[:2]) else ""
        cells = (cell(text, i < grid.words, (number, i) in grid.best) for i, text in enumerate(row))
        rows.append(f"<tr{kind}>{''.join(cells)}</tr>")
    return html.table(headings, rows)


def _chart(collected: Collected) -> str:
    """Return a chart of our own averages, or else dev scores; an empty text if there are none."""
    column = next((name for name in ("average", "dev") if name in collected.columns), None)
    if column is None:
        return ""
    rows = []
    for system in collected.systems:
        mean, spread = system.mean(column), system.spread(column)
        interval = collected.intervals.get(system.name, {}).get(column)
        if mean is None:
            continue
        bounds = None if spread is None else (mean - spread, mean + spread)
        if interval is not None:
            bounds = (interval.low, interval.high)
        rows.append(
            Estimate(system.name, mean, bounds, [row[column] for row in system.scores if column in row])
        )
    if not rows:
        return ""
    note = (
        "Dot: mean over the seeds; circles: single seeds; line: 95 % interval over test pairs or, for runs "
        "without predictions, one standard deviation of the seeds to each side."
    )
    return f"<h2>Systems</h2>\n<p>{note}</p>\n{estimate_chart(rows, column)}"


def _runs(collected: Collected, system: System) -> str:
    if not system.folders:
        return f"<p>{escape(system.name)}: {MISSING}</p>"
    assert system.cell is not None
    settings = {run.folder: run.command for run in collected.table.seed_runs(system.cell)}
    columns = [column for column in collected.columns if column != "std"]
    rows = [
        [seed, *(f"{scores[column]:.2f}" if column in scores else "" for column in columns)]
        for seed, scores in zip(system.seeds, system.scores, strict=True)
    ]
    parts = [html.text_table(["seed", *columns], rows, words=1)]
    for folder in system.folders:
        images = "".join(html.inline_image(path) for path in sorted(RunFolder(folder).plots.glob("*.png")))
        parts.append(
            f"<p><code>{escape(str(folder))}</code>: <code>{escape(settings[folder])}</code></p>"
            f'<div class="plots">{images}</div>'
        )
    count = f"{len(system.folders)} of {system.planned} runs"
    return f"<details><summary>{escape(system.name)}: {count}</summary>{''.join(parts)}</details>"


def _code(text: str) -> str:
    """Escape text for HTML, with `backticks` as code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))

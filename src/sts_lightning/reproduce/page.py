"""A collected table as a self-contained HTML page."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from string import Template

from sts_lightning.reproduce.collect import Collected, System
from sts_lightning.reproduce.grids import MISSING, Grid, grids, notes
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.html import inline_image


def page(collected: Collected, made: str = "") -> str:
    """Return a page with sortable tables, and the settings and plots of every finished run.

    Args:
        collected: Collected table.
        made: Command that made the page, for its footer.
    """
    template = Template((files("sts_lightning.reproduce") / "page.html").read_text(encoding="utf-8"))
    parts = []
    for number, grid in enumerate(grids(collected)):
        heading = "" if number == 0 else f"<h2>{escape(grid.title)}</h2>\n"
        parts.append(f'{heading}<div class="wide">{_table(grid)}</div>')
    systems = [system for system in collected.systems if system.cell is not None]
    return template.substitute(
        title=escape(collected.title),
        notes="<ul>" + "".join(f"<li>{_code(note)}</li>" for note in notes(collected)) + "</ul>",
        tables="\n".join(parts),
        runs="\n".join(_runs(collected, system) for system in systems),
        made=escape(made),
    )


def _table(grid: Grid) -> str:
    def cell(tag: str, index: int, text: str) -> str:
        kinds = [*(["word"] if index < grid.words else []), *(["missing"] if text == MISSING else [])]
        kind = f' class="{" ".join(kinds)}"' if kinds else ""
        inner = f'<button type="button">{escape(text)}</button>' if tag == "th" else escape(text)
        return f"<{tag}{kind}>{inner}</{tag}>"

    head = "".join(cell("th", index, text or "system") for index, text in enumerate(grid.header))
    lines = []
    for row in grid.rows:
        kind = ' class="published"' if any(text.startswith("published") for text in row[:2]) else ""
        lines.append(f"<tr{kind}>{''.join(cell('td', i, text) for i, text in enumerate(row))}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _runs(collected: Collected, system: System) -> str:
    if not system.folders:
        return f"<p>{escape(system.name)}: {MISSING}</p>"
    assert system.cell is not None
    settings = {run.folder: run.command for run in collected.table.seed_runs(system.cell)}
    parts = []
    for folder in system.folders:
        images = "".join(inline_image(path) for path in sorted(RunFolder(folder).plots.glob("*.png")))
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

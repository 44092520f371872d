"""Charts as inline SVG, which take their colours from the page they are on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ("#0a78c2", "#d55e00", "#00926a", "#c1569b", "#a87a00", "#7a6fe0")
"""Colours of similar lightness, visible on white and on black."""

STYLES = tuple((colour, dashes) for dashes in ("", "6 4") for colour in COLOURS)
"""Colour and dashes of each series; their number is that of the series a chart can tell apart."""

WIDTH, HEIGHT = 640, 340
"""Size of a line chart."""

LEFT, RIGHT, TOP, BOTTOM = 56, 14, 12, 44
"""Margins around what is drawn, for the numbers on the axes."""

LETTER = 7.2
"""Width of a letter in the label of a row."""

LONGEST_LABEL = 44
"""Letters up to which the label of a row is written out."""

ROW = 26
"""Height of a row."""

LEAST = 0.1
"""Least range of an axis: smaller differences of scores times 100 are rounding errors."""


@dataclass(frozen=True)
class Series:
    """Lines of one style.

    Attributes:
        name: Name, shown where the pointer is.
        lines: Points of each line, in order.
    """

    name: str
    lines: Sequence[Sequence[tuple[float, float]]]


@dataclass(frozen=True)
class Estimate:
    """A row of a chart of estimates.

    Attributes:
        name: Label.
        value: Estimate.
        bounds: Ends of its line; None for no line.
        points: Single values.
    """

    name: str
    value: float
    bounds: tuple[float, float] | None = None
    points: Sequence[float] = ()


def line_chart(series: Sequence[Series], x_label: str, y_label: str) -> str:
    """Return a chart of lines, at most as many series as there are `STYLES`.

    Args:
        series: Lines; at least one point in all.
        x_label: What the horizontal axis shows; its values are whole numbers.
        y_label: What the vertical axis shows.
    """
    points = [point for one in series for line in one.lines for point in line]
    x_ticks = _ticks([x for x, _ in points], whole=True)
    y_ticks = _ticks([y for _, y in points])

    def place(x: float, y: float) -> tuple[float, float]:
        return _scaled(x, x_ticks, LEFT, WIDTH - RIGHT), _scaled(y, y_ticks, HEIGHT - BOTTOM, TOP)

    parts = [_vertical_grid(x_ticks, LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM)]
    for tick in y_ticks:
        y = _scaled(tick, y_ticks, HEIGHT - BOTTOM, TOP)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"></line>')
        parts.append(_text(LEFT - 8, y + 4, _number(tick), "end"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x_label, "middle"))
    parts.append(f'<g transform="translate(14 {middle}) rotate(-90)">{_text(0, 0, y_label, "middle")}</g>')
    for one, (colour, dashes) in zip(series, STYLES, strict=False):
        drawn = "".join(_line([place(*point) for point in line]) for line in one.lines if line)
        style = f'stroke="{colour}" fill="{colour}" stroke-dasharray="{dashes}"'
        parts.append(f'<g class="series" {style}><title>{escape(one.name)}</title>{drawn}</g>')
    return _svg(WIDTH, HEIGHT, f"{y_label} by {x_label}", parts)


def swatch(number: int) -> str:
    """Return a short line in the style of a series, for a legend.

    Args:
        number: Place of the series in its chart.
    """
    colour, dashes = STYLES[number]
    line = (
        f'<line x1="1" x2="27" y1="6" y2="6" stroke="{colour}" stroke-width="3" stroke-dasharray="{dashes}">'
    )
    return f'<svg class="swatch" width="28" height="12" aria-hidden="true">{line}</line></svg>'


def estimate_chart(rows: Sequence[Estimate], label: str) -> str:
    """Return a chart with a row for each estimate.

    Args:
        rows: Estimates; at least one.
        label: What the axis shows.
    """
    names = [_shortened(row.name) for row in rows]
    left = 16 + LETTER * max(map(len, names))
    width, bottom = left + 420 + RIGHT, TOP + ROW * len(rows)
    ticks = _ticks([x for row in rows for x in (row.value, *(row.bounds or ()), *row.points)])
    parts = [_vertical_grid(ticks, left, width - RIGHT, bottom)]
    for number, (row, name) in enumerate(zip(rows, names, strict=True)):
        y = TOP + ROW * (number + 0.5)
        at = [_scaled(x, ticks, left, width - RIGHT) for x in (row.value, *row.points, *(row.bounds or ()))]
        shown = f"{row.name}: {row.value:.2f}"
        line = ""
        if row.bounds is not None:
            shown += f" ({row.bounds[0]:.2f} to {row.bounds[1]:.2f})"
            line = f'<line x1="{at[-2]:.1f}" x2="{at[-1]:.1f}" y1="{y}" y2="{y}"></line>'
        seeds = "".join(
            f'<circle class="one" cx="{x:.1f}" cy="{y}" r="3"></circle>' for x in at[1 : 1 + len(row.points)]
        )
        dot = f'<circle cx="{at[0]:.1f}" cy="{y}" r="5"></circle>'
        parts.append(
            f"{_text(left - 12, y + 4, name, 'end')}"
            f'<g class="series" stroke="{COLOURS[0]}" fill="{COLOURS[0]}">'
            f"<title>{escape(shown)}</title>{line}{dot}{seeds}</g>"
        )
    parts.append(_text((left + width - RIGHT) / 2, bottom + 36, label, "middle"))
    return _svg(width, bottom + BOTTOM, label, parts)


def _ticks(values: Sequence[float], whole: bool = False) -> list[float]:
    """Return round numbers around all values, the first and the last as ends of an axis."""
    from matplotlib.ticker import MaxNLocator  # most commands need no chart

    low, high = min(values), max(values)
    if high - low < LEAST:
        low, high = (low + high - LEAST) / 2, (low + high + LEAST) / 2
    locator = MaxNLocator(6, steps=[1, 2, 5, 10], integer=whole, min_n_ticks=2)
    return [float(tick) for tick in locator.tick_values(low, high)]


def _scaled(value: float, ticks: Sequence[float], start: float, end: float) -> float:
    return start + (value - ticks[0]) / (ticks[-1] - ticks[0]) * (end - start)


def _vertical_grid(ticks: Sequence[float], left: float, right: float, bottom: float) -> str:
    parts = []
    for tick in ticks:
        x = _scaled(tick, ticks, left, right)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"></line>')
        parts.append(_text(x, bottom + 16, _number(tick), "middle"))
    return "".join(parts)


def _line(points: Sequence[tuple[float, float]]) -> str:
    if len(points) == 1:
        return f'<circle cx="{points[0][0]:.1f}" cy="{points[0][1]:.1f}" r="3"></circle>'
    return f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"></polyline>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _number(value: float) -> str:
    return f"{value:,.10g}"


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST_LABEL else f"{name[: LONGEST_LABEL - 1]}…"


def _svg(width: float, height: float, label: str, parts: Sequence[str]) -> str:
    size = f'width="{math.ceil(width)}" height="{math.ceil(height)}"'
    box = f'viewBox="0 0 {math.ceil(width)} {math.ceil(height)}"'
    opening = f'<svg class="chart" {size} {box} role="img" aria-label="{escape(label)}">'
    return "\n".join([f'<div class="wide">{opening}', *parts, "</svg></div>"])

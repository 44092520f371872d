"""Names beside the points of a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.transforms import Bbox

Point = tuple[float, float]

PLACES = [
    {"xytext": (x * distance, y * distance), "ha": {1: "left", 0: "center", -1: "right"}[x], "va": va}
    for distance, (x, (y, va)) in product(
        (8, 16, 26, 40), product((1, -1, 0), ((0, "center"), (1, "bottom"), (-1, "top")))
    )
    if (x, y) != (0, 0)
]
"""Offsets from a point in dots of print, nearest first."""


def place_labels(axis: Axes, points: Mapping[str, Point], segments: Sequence[tuple[Point, Point]]) -> None:
    """Write the name of each point at the nearest place that is free.

    A place is free if it covers no point, no segment, no legend and no name written before.

    Args:
        axis: Axes with final limits.
        points: Points by name.
        segments: Lines that no name should cover.
    """
    figure = axis.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    to_dots = axis.transData.transform
    along = np.linspace(0, 1, 30)[:, None]
    solid = [to_dots(np.array(list(points.values())))]
    solid += [to_dots(np.array(start) * (1 - along) + np.array(end) * along) for start, end in segments]
    dots = np.concatenate(solid)
    legend = axis.get_legend()
    taken: list[Bbox] = [] if legend is None else [legend.get_window_extent()]
    for name, point in points.items():
        for number, place in enumerate(PLACES):
            text = axis.annotate(name, point, textcoords="offset points", fontsize=9, **place)  # type: ignore[arg-type]
            box = text.get_window_extent().padded(2)
            inside = axis.get_window_extent()
            outside = box.x0 < inside.x0 or box.x1 > inside.x1 or box.y0 < inside.y0 or box.y1 > inside.y1
            covers = box.count_contains(dots) or any(box.overlaps(other) for other in taken)
            if not (outside or covers) or number == len(PLACES) - 1:
                taken.append(box)
                break
            text.remove()

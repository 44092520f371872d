"""Names beside the points of a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.transforms import Bbox

Point = tuple[float, float]

DISTANCES = (8, 16, 26, 40)
"""Distances of a name from its point in dots of print."""

SIDES: Sequence[tuple[int, int, Literal["left", "center", "right"], Literal["top", "center", "bottom"]]] = (
    (1, 0, "left", "center"),
    (1, 1, "left", "bottom"),
    (1, -1, "left", "top"),
    (-1, 0, "right", "center"),
    (-1, 1, "right", "bottom"),
    (-1, -1, "right", "top"),
    (0, 1, "center", "bottom"),
    (0, -1, "center", "top"),
)
"""Directions from a point, each with the alignment of a name written there."""

PLACES = [(x * distance, y * distance, ha, va) for distance in DISTANCES for x, y, ha, va in SIDES]
"""Offsets and alignments, nearest first."""


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
        for number, (x, y, ha, va) in enumerate(PLACES):
            text = axis.annotate(
                name, point, xytext=(x, y), textcoords="offset points", fontsize=9, ha=ha, va=va
            )
            box = text.get_window_extent().padded(2)
            inside = axis.get_window_extent()
            outside = box.x0 < inside.x0 or box.x1 > inside.x1 or box.y0 < inside.y0 or box.y1 > inside.y1
            covers = box.count_contains(dots) or any(box.overlaps(other) for other in taken)
            if not (outside or covers) or number == len(PLACES) - 1:
                taken.append(box)
                break
            text.remove()

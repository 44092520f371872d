from __future__ import annotations

from itertools import combinations

from matplotlib.text import Text

from sts_lightning.analysis.labels import place_labels
from sts_lightning.analysis.plots import new_figure


def test_names_of_close_points_overlap_nothing() -> None:
    points = {f"a system with a long name {n}": (200.0 + n, 78.0 + n % 2 / 50) for n in range(5)}
    figure = new_figure(7, 5)
    axis = figure.add_subplot()
    axis.plot(*zip(*points.values(), strict=True), "o")
    axis.margins(0.3)
    place_labels(axis, points, [])
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axis.texts if isinstance(text, Text)]
    assert [text.get_text() for text in axis.texts] == list(points)
    assert not any(one.overlaps(two) for one, two in combinations(boxes, 2))
    dots = axis.transData.transform(list(points.values()))
    assert not any(box.count_contains(dots) for box in boxes)

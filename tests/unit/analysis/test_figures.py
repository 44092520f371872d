"""What is drawn, read back from the axes."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from matplotlib.axes import Axes

from sts_lightning.analysis.figures import (
    System,
    Trace,
    groups_over_steps,
    loss_curves,
    phase_ends,
    rank_dynamics,
    system_points,
    two_sides,
)
from sts_lightning.analysis.phases import find_phases

STEPS = [0, 10, 20, 30]
TRACES = [
    Trace(system, f"seed {seed}", system == "B", STEPS, values, find_phases(STEPS, *values.values()))
    for system, seed, values in (
        ("A", 1, {"rank": [1.0, 4.0, 3.0, 2.0], "score": [50.0, 60.0, 70.0, 65.0]}),
        ("A", 2, {"rank": [1.0, 5.0, 4.0, 3.0], "score": [51.0, 61.0, 64.0, 66.0]}),
        ("B", 1, {"rank": [1.0, 3.0, 2.0, 1.0], "score": [50.0, 72.0, 71.0, 70.0]}),
    )
]


def drawn(axis: Axes) -> list[tuple[list[float], list[float]]]:
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in axis.get_lines()]


def names(axis: Axes) -> list[str]:
    return [text.get_text() for text in axis.get_legend().get_texts()]


def test_a_panel_for_each_loss() -> None:
    figure = loss_curves([0.0, 1.0], {"one": [0.0, 2.0], "two": [0.0, 4.0]}, x0=0.25)
    assert [drawn(axis)[0] for axis in figure.axes] == [([0, 1], [0, 2]), ([0, 1], [0, 4])]
    assert [axis.get_title() for axis in figure.axes] == ["one", "two"]
    assert drawn(figure.axes[0])[1][0] == [0.25, 0.25]


def test_rank_above_score() -> None:
    figure = rank_dynamics(TRACES, "rank", "score", "title")
    above, below = figure.axes
    assert drawn(above) == [(STEPS, list(trace.values["rank"])) for trace in TRACES]
    assert drawn(below) == [(STEPS, list(trace.values["score"])) for trace in TRACES]
    assert [line.get_color() for line in above.get_lines()] == ["tab:blue", "tab:blue", "tab:red"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["A (2 runs)", "B"]


def test_a_value_on_each_side() -> None:
    figure = two_sides(TRACES, {"one": ("rank", "score"), "two": ("score", "rank")}, "title")
    left = [axis for axis in figure.axes if axis.get_title()]
    right = [axis for axis in figure.axes if not axis.get_title()]
    assert [axis.get_title() for axis in left] == ["A: one", "B: one", "A: two", "B: two"]
    assert drawn(left[0])[:2] == [(STEPS, list(trace.values["rank"])) for trace in TRACES[:2]]
    assert drawn(left[0])[2:] == [([10, 10], [0, 1])] * 2  # the highest rank of each run
    assert drawn(right[2]) == [(STEPS, list(trace.values["rank"])) for trace in TRACES[:2]]


def test_a_panel_for_each_group_of_tasks() -> None:
    figure = groups_over_steps(TRACES[:2], {"first": ["rank"], "second": ["score", "rank"]}, "y", "title")
    first, second = figure.axes
    assert drawn(first)[:2] == [(STEPS, list(trace.values["rank"])) for trace in TRACES[:2]]
    assert names(first) == ["rank", "highest rank"]
    assert names(second) == ["score", "rank", "highest rank"]


def test_ends_of_phase_2() -> None:
    figure = phase_ends(TRACES, "score", "title")
    one, two = figure.axes
    # The best score from the highest rank (step 10) on.
    assert drawn(one)[1::2] == [([20], [70.0]), ([30], [66.0])]
    assert drawn(two)[1::2] == [([10], [72.0])]
    assert names(one) == ["seed 1: step 20", "seed 2: step 30"]


SYSTEMS = [
    System("A", False, [300, 310], [76.0, 78.0]),
    System("A + RR", True, [200, 190], [79.0, 79.5], "A"),
    System("B", False, [250, 240], [77.0, 78.2]),
]


def test_means_with_and_without_rank_reduction() -> None:
    axis = system_points(SYSTEMS, "rank", "score", "title").axes[0]
    assert drawn(axis) == [([305, 245], [77.0, 77.6]), ([195], [79.25])]
    assert names(axis) == ["original", "with rank reduction"]
    arrows = [(text.xy, text.xyann) for text in axis.texts if getattr(text, "arrow_patch", None)]
    assert arrows == [((195, 79.25), (305, 77.0))]
    assert {text.get_text() for text in axis.texts} == {"", "A", "A + RR", "B"}


def test_spread_over_seeds_and_its_correlation() -> None:
    axis = system_points(SYSTEMS, "rank", "score", "title", spread=True).axes[0]
    spreads = [statistics.stdev(one.scores) for one in SYSTEMS]
    assert drawn(axis) == [([305, 245], [spreads[0], spreads[2]]), ([195], [spreads[1]])]
    r = np.corrcoef([305, 195, 245], spreads)[0, 1]
    assert axis.get_title() == f"title\nPearson's correlation {r:.2f}"


def test_a_correlation_of_too_few_is_rejected() -> None:
    with pytest.raises(ValueError, match="three systems"):
        system_points(SYSTEMS[:2], "rank", "score", "title", spread=True)
    with pytest.raises(ValueError, match="two data points"):
        system_points([System("A", False, [1], [2]), *SYSTEMS], "rank", "score", "title", spread=True)

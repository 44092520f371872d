"""The papers' figures of losses, of runs over their steps and of systems, drawn from plain numbers."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from sts_lightning.analysis.phases import Phases
from sts_lightning.analysis.plots import new_figure

PLAIN, REDUCED = "tab:blue", "tab:red"
"""Colours without and with rank reduction, as in the paper."""

STEP = "optimiser step"


@dataclass(frozen=True)
class Trace:
    """Values of a run over its steps.

    Attributes:
        system: Name of the system.
        run: Name of the run among those of the system.
        reduced: Whether it was trained with rank reduction.
        steps: Steps of the measurements, ascending.
        values: Values at these steps, by name.
        phases: Phases of the run; None if unknown.
    """

    system: str
    run: str
    reduced: bool
    steps: Sequence[int]
    values: Mapping[str, Sequence[float]] = field(default_factory=dict)
    phases: Phases | None = None


@dataclass(frozen=True)
class System:
    """Rank and score of each run of a system.

    Attributes:
        name: Name of the system.
        reduced: Whether it was trained with rank reduction.
        ranks: Rank of each run.
        scores: Score of each run times 100.
        original: Name of the same system without rank reduction, if it is drawn too.
    """

    name: str
    reduced: bool
    ranks: Sequence[float]
    scores: Sequence[float]
    original: str | None = None


def loss_curves(errors: Sequence[float], curves: Mapping[str, Sequence[float]], x0: float) -> Figure:
    """Draw penalties over the absolute error, a panel for each (STS-Regression, Figure 2).

    Args:
        errors: Absolute errors |prediction - label|, ascending.
        curves: Penalties at these errors, by the title of their panel.
        x0: Largest error without penalty.
    """
    figure = new_figure(9, 4)
    axes = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
    for axis, (name, values) in zip(axes, curves.items(), strict=True):
        axis.plot(errors, values, color=PLAIN, label="penalty")
        axis.axvline(x0, color="grey", linestyle=":", linewidth=1, label=f"x\N{SUBSCRIPT ZERO} = {x0:g}")
        axis.set(title=name, xlabel="|prediction - label|")
        axis.grid(alpha=0.25)
        axis.legend(loc="upper center")
    axes[0].set_ylabel("penalty")
    return figure


def system_points(
    systems: Sequence[System], rank: str, score: str, title: str, spread: bool = False
) -> Figure:
    """Draw the score of each system against its mean rank (rank reduction, Figures 1 and 6).

    Args:
        systems: The systems.
        rank: Label of the ranks.
        score: Label of the scores.
        title: Title of the figure.
        spread: Whether to draw the standard deviation of the score over seeds, with Pearson's correlation in
            the title; otherwise the mean, with an arrow to each system from the one without rank reduction.

    Raises:
        ValueError: A standard deviation or their correlation needs more runs.
    """
    figure = new_figure(7, 5)
    axis = figure.add_subplot()
    height = statistics.stdev if spread else statistics.mean
    places = {one.name: (statistics.mean(one.ranks), height(one.scores)) for one in systems}
    if spread:
        if len(systems) < 3:
            raise ValueError(f"the correlation needs three systems or more, and there are {len(systems)}.")
        r = stats.pearsonr(*zip(*places.values(), strict=True)).statistic
        score, title = f"standard deviation of {score}", f"{title}\nPearson's correlation {r:.2f}"
    for one in systems:
        if one.original is not None and not spread:
            arrow = {"arrowstyle": "->", "color": "grey", "shrinkA": 6, "shrinkB": 6}
            axis.annotate("", places[one.name], places[one.original], arrowprops=arrow)
    for reduced, colour, label in ((False, PLAIN, "original"), (True, REDUCED, "with rank reduction")):
        points = [places[one.name] for one in systems if one.reduced is reduced]
        if points:
            axis.plot(*zip(*points, strict=True), "o", color=colour, markersize=7, label=label)
    for name, place in places.items():
        axis.annotate(name, place, xytext=(8, 4), textcoords="offset points", fontsize=9)
    axis.margins(x=0.2, y=0.15)
    axis.grid(alpha=0.25)
    axis.legend(loc="best")
    axis.set(xlabel=rank, ylabel=score, title=title)
    return figure


def rank_dynamics(traces: Sequence[Trace], rank: str, score: str, title: str) -> Figure:
    """Draw rank and dev score over steps, a colour for each system (rank reduction, Figure 2).

    Args:
        traces: Runs with the values ``rank`` and ``score``.
        rank: Label of the ranks.
        score: Label of the scores.
        title: Title of the figure.
    """
    figure = new_figure(8, 6.5)
    axes = figure.subplots(2, sharex=True)
    colours = _colours(traces)
    for axis, value, label in zip(axes, ("rank", "score"), (rank, score), strict=True):
        for trace in traces:
            axis.plot(trace.steps, trace.values[value], color=colours[trace.system], linewidth=1.2)
        axis.set_ylabel(label)
        axis.grid(alpha=0.25)
    axes[0].set_title(title)
    axes[1].set_xlabel(STEP)
    handles = {trace.system: line for trace, line in zip(traces, axes[0].get_lines(), strict=True)}
    systems = _by_system(traces)
    names = [name if len(own) == 1 else f"{name} ({len(own)} runs)" for name, own in systems.items()]
    figure.legend(list(handles.values()), names, loc="outside lower center", ncols=3, fontsize=9)
    return figure


def _by_system(traces: Sequence[Trace]) -> dict[str, list[Trace]]:
    systems: dict[str, list[Trace]] = {}
    for trace in traces:
        systems.setdefault(trace.system, []).append(trace)
    return systems


def _colours(traces: Sequence[Trace]) -> dict[str, str]:
    """Return blue and red for one system without and one with rank reduction, else ten colours in turn."""
    kinds = {trace.system: trace.reduced for trace in traces}
    if len(kinds) == 2 and set(kinds.values()) == {False, True}:
        return {name: REDUCED if reduced else PLAIN for name, reduced in kinds.items()}
    return {name: f"C{number % 10}" for number, name in enumerate(kinds)}


def two_sides(traces: Sequence[Trace], rows: Mapping[str, tuple[str, str]], title: str) -> Figure:
    """Draw two values over steps on the left and on the right axis (rank reduction, Figure 3).

    Each system has a column, and each definition a row.

    Args:
        traces: Runs with the values that ``rows`` names.
        rows: Names of the two values of a row, by the row's title.
        title: Title of the figure.
    """
    systems = _by_system(traces)
    figure = new_figure(max(7.0, 5.5 * len(systems)), 3.6 * len(rows))
    panels = figure.subplots(len(rows), len(systems), sharex=True, squeeze=False)
    for line, (heading, names) in zip(panels, rows.items(), strict=True):
        for axis, (system, own) in zip(line, systems.items(), strict=True):
            _two_axes(axis, own, names)
            axis.set_title(f"{system}: {heading}", fontsize=10)
    for axis in panels[-1]:
        axis.set_xlabel(STEP)
    lines = [line for axis in figure.axes for line in axis.get_lines()]
    found = {str(line.get_label()): line for line in lines}
    figure.legend(found.values(), list(found), loc="outside lower center", ncols=len(found), fontsize=9)
    figure.suptitle(title)
    return figure


def _two_axes(axis: Axes, traces: Sequence[Trace], names: tuple[str, str]) -> None:
    right = axis.twinx()
    sides = ((axis, names[0], "alignment loss", PLAIN), (right, names[1], "uniformity loss", "tab:orange"))
    for side, value, label, colour in sides:
        for trace in traces:
            side.plot(trace.steps, trace.values[value], color=colour, linewidth=1.3, label=label)
        side.set_ylabel(f"{label} (lower is better)", color=colour)
        side.tick_params(axis="y", colors=colour)
    _mark_peaks(axis, traces)
    axis.grid(alpha=0.25)


def _mark_peaks(axis: Axes, traces: Sequence[Trace]) -> None:
    for trace in traces:
        if trace.phases is not None:
            axis.axvline(trace.phases.boundary, color="grey", linestyle="--", label="highest rank")


def groups_over_steps(
    traces: Sequence[Trace], groups: Mapping[str, Sequence[str]], label: str, title: str
) -> Figure:
    """Draw scores over steps, a panel for each group of tasks (rank reduction, Figure 4).

    Args:
        traces: Runs with a value for each task; each run has a line of its own.
        groups: Tasks of each panel, by its title.
        label: Label of the scores.
        title: Title of the figure.
    """
    systems = _by_system(traces)
    figure = new_figure(13, 4.2 * len(systems))
    panels = figure.subplots(len(systems), len(groups), sharex=True, squeeze=False)
    for line, (system, own) in zip(panels, systems.items(), strict=True):
        for axis, (heading, tasks) in zip(line, groups.items(), strict=True):
            for number, task in enumerate(tasks):
                for place, trace in enumerate(own):
                    label_once = task if place == 0 else f"_{task}"
                    axis.plot(trace.steps, trace.values[task], "o-", color=f"C{number}", label=label_once)
            _mark_peaks(axis, own[:1])
            axis.set_title(heading if len(systems) == 1 else f"{system}\n{heading}", fontsize=10)
            axis.grid(alpha=0.25)
            axis.legend(fontsize=8)
        line[0].set_ylabel(label)
    for axis in panels[-1]:
        axis.set_xlabel(STEP)
    figure.suptitle(title)
    return figure


def phase_ends(traces: Sequence[Trace], score: str, title: str) -> Figure:
    """Draw the dev score of each run with the end of its phase 2, a panel for each system (Figure 7).

    Args:
        traces: Runs with the value ``score``, and their phases.
        score: Label of the scores.
        title: Title of the figure.
    """
    systems = _by_system(traces)
    figure = new_figure(max(6.0, 5 * len(systems)), 4.3)
    panels = figure.subplots(1, len(systems), sharex=True, sharey=True, squeeze=False)[0]
    for axis, (system, own) in zip(panels, systems.items(), strict=True):
        for number, trace in enumerate(own):
            assert trace.phases is not None  # the caller computed them
            end = trace.phases.end
            colour = f"C{number % 10}"
            axis.plot(trace.steps, trace.values["score"], color=colour, linewidth=1, alpha=0.6)
            best = trace.values["score"][list(trace.steps).index(end)]
            axis.plot([end], [best], "*", color=colour, markersize=13, label=f"{trace.run}: step {end}")
        axis.set(xlabel=STEP, title=system)
        axis.grid(alpha=0.25)
        axis.legend(fontsize=8)
    panels[0].set_ylabel(score)
    figure.suptitle(title)
    return figure

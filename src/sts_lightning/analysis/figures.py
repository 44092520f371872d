"""The papers' figures of losses, of runs over their steps and of systems."""

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
"""Label of the horizontal axis."""


@dataclass(frozen=True)
class Trace:
    """Values of a run over its steps.

    Attributes:
        system: Name of the system.
        run: Name of the run among those of the system.
        reduced: Whether it was trained with rank reduction.
        steps: Steps of the measurements, ascending.
        values: Values at these steps, by name.
        phases: Phases of the run, None if unknown.
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
    points = {system.name: (statistics.mean(system.ranks), height(system.scores)) for system in systems}
    if spread:
        if len(systems) < 3:
            raise ValueError(f"the correlation needs three systems or more, and there are {len(systems)}.")
        r = stats.pearsonr(*zip(*points.values(), strict=True)).statistic
        score, title = f"standard deviation of {score}", f"{title}\nPearson's correlation {r:.2f}"
    for system in systems:
        if system.original is not None and not spread:
            arrow = {"arrowstyle": "->", "color": "grey", "shrinkA": 6, "shrinkB": 6}
            axis.annotate("", points[system.name], points[system.original], arrowprops=arrow)
    for reduced, colour, label in ((False, PLAIN, "original"), (True, REDUCED, "with rank reduction")):
        group = [points[system.name] for system in systems if system.reduced is reduced]
        if group:
            axis.plot(*zip(*group, strict=True), "o", color=colour, markersize=7, label=label)
    for name, point in points.items():
        axis.annotate(name, point, xytext=(8, 4), textcoords="offset points", fontsize=9)
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
    names = [name if len(runs) == 1 else f"{name} ({len(runs)} runs)" for name, runs in systems.items()]
    figure.legend(list(handles.values()), names, loc="outside lower center", ncols=3, fontsize=9)
    return figure


def _by_system(traces: Sequence[Trace]) -> dict[str, list[Trace]]:
    systems: dict[str, list[Trace]] = {}
    for trace in traces:
        systems.setdefault(trace.system, []).append(trace)
    return systems


def _colours(traces: Sequence[Trace]) -> dict[str, str]:
    """Return blue and red for a system without and one with rank reduction, else ten colours in turn."""
    reduced = {trace.system: trace.reduced for trace in traces}
    if len(reduced) == 2 and set(reduced.values()) == {False, True}:
        return {name: REDUCED if reduced[name] else PLAIN for name in reduced}
    return {name: f"C{number % 10}" for number, name in enumerate(reduced)}


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
        for axis, (system, runs) in zip(line, systems.items(), strict=True):
            _two_axes(axis, runs, names)
            axis.set_title(f"{system}: {heading}", fontsize=10)
    for axis in panels[-1]:
        axis.set_xlabel(STEP)
    lines = [line for axis in figure.axes for line in axis.get_lines()]
    handles = {str(line.get_label()): line for line in lines}  # one for each label, not for each run
    figure.legend(handles.values(), list(handles), loc="outside lower center", ncols=len(handles), fontsize=9)
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
        traces: Runs with a value for each task; each run is a line.
        groups: Tasks of each panel, by its title.
        label: Label of the scores.
        title: Title of the figure.
    """
    systems = _by_system(traces)
    figure = new_figure(13, 4.2 * len(systems))
    panels = figure.subplots(len(systems), len(groups), sharex=True, squeeze=False)
    for line, (system, runs) in zip(panels, systems.items(), strict=True):
        for axis, (heading, tasks) in zip(line, groups.items(), strict=True):
            for number, task in enumerate(tasks):
                for trace in runs:
                    # matplotlib leaves labels with an underscore out of the legend: the task is there once.
                    label_once = task if trace is runs[0] else f"_{task}"
                    axis.plot(trace.steps, trace.values[task], "o-", color=f"C{number}", label=label_once)
            _mark_peaks(axis, runs[:1])
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
    for axis, (system, runs) in zip(panels, systems.items(), strict=True):
        for number, trace in enumerate(runs):
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

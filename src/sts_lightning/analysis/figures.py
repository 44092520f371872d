"""The papers' figures of losses and of runs over their steps, drawn from plain numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.figure import Figure

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


def rank_dynamics(traces: Sequence[Trace], rank: str, score: str, title: str) -> Figure:
    """Draw rank and dev score over steps, a colour for each system (rank reduction, Figures 1 and 2).

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
    names = [_counted(name, traces) for name in handles]
    figure.legend(list(handles.values()), names, loc="outside lower center", ncols=3, fontsize=9)
    return figure


def _colours(traces: Sequence[Trace]) -> dict[str, str]:
    """Return blue and red for one system without and one with rank reduction, else ten colours in turn."""
    kinds = {trace.system: trace.reduced for trace in traces}
    if len(kinds) == 2 and set(kinds.values()) == {False, True}:
        return {name: REDUCED if reduced else PLAIN for name, reduced in kinds.items()}
    return {name: f"C{number % 10}" for number, name in enumerate(kinds)}


def _counted(name: str, traces: Sequence[Trace]) -> str:
    runs = sum(trace.system == name for trace in traces)
    return name if runs == 1 else f"{name} ({runs} runs)"


def two_sides(traces: Sequence[Trace], rows: Mapping[str, tuple[str, str]], title: str) -> Figure:
    """Draw two values over steps on the left and on the right axis (rank reduction, Figure 3).

    Each system has a column, and each definition a row.

    Args:
        traces: Runs with the values that ``rows`` names.
        rows: Names of the two values of a row, by the row's title.
        title: Title of the figure.
    """
    systems = list(dict.fromkeys(trace.system for trace in traces))
    figure = new_figure(max(7.0, 5.5 * len(systems)), 3.6 * len(rows))
    panels = figure.subplots(len(rows), len(systems), sharex=True, squeeze=False)
    for line, (heading, names) in zip(panels, rows.items(), strict=True):
        for axis, system in zip(line, systems, strict=True):
            own = [trace for trace in traces if trace.system == system]
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
    systems = list(dict.fromkeys(trace.system for trace in traces))
    figure = new_figure(13, 4.2 * len(systems))
    panels = figure.subplots(len(systems), len(groups), sharex=True, squeeze=False)
    for line, system in zip(panels, systems, strict=True):
        own = [trace for trace in traces if trace.system == system]
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
    systems = list(dict.fromkeys(trace.system for trace in traces))
    figure = new_figure(max(6.0, 5 * len(systems)), 4.3)
    panels = figure.subplots(1, len(systems), sharex=True, sharey=True, squeeze=False)[0]
    for axis, system in zip(panels, systems, strict=True):
        own = [trace for trace in traces if trace.system == system]
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

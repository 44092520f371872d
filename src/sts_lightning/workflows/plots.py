"""Plots of a run, and the drawing and writing of figures without pyplot."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from sts_lightning.core.files import write_atomic


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure; the size is in inches."""
    # pyplot has global state and selects a GUI backend.
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, atomically, into a folder that is created if necessary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for text in figure.findobj(Text):
        text.set_parse_math(False)  # a dollar sign in the name of a run does not begin a formula
    image = io.BytesIO()
    figure.savefig(image, dpi=130, format="png")
    write_atomic(path, image.getvalue())


def plot_curves(
    rows: Sequence[Mapping[str, float]],
    path: Path,
    best_step: int | None,
    title: str,
    dev_score: tuple[str, str] = ("dev/spearman", "Spearman"),
) -> None:
    """Plot training loss and the dev score over the steps of a history, and mark the selected step.

    Args:
        rows: The history.
        path: Image to write.
        best_step: The selected step.
        title: Title.
        dev_score: Column of the dev score, and its name.
    """
    figure = new_figure(7, 4)
    axis = figure.add_subplot()
    loss = [(row["step"], row["train/loss"]) for row in rows if "train/loss" in row]
    monitor, name = dev_score
    dev = [(row["step"], row[monitor]) for row in rows if monitor in row]
    if loss:
        axis.plot(*zip(*loss, strict=True), color="tab:blue", linewidth=1, alpha=0.8)
    axis.set(xlabel="optimiser step", title=title)
    axis.set_ylabel("training loss", color="tab:blue")
    axis.grid(alpha=0.25)
    right = axis.twinx()
    if dev:
        right.plot(*zip(*dev, strict=True), color="tab:orange", marker="o", markersize=4)
        if best_step in dict(dev):
            label = f"selected: {dict(dev)[best_step]:.2f}"
            right.axvline(best_step, color="tab:orange", linestyle="dotted", label=label)
            right.legend(loc="lower right")
    right.set_ylabel(f"dev {name} x 100", color="tab:orange")
    save_figure(figure, path)


def plot_cosines(cosines: np.ndarray, gold: np.ndarray, path: Path, title: str) -> None:
    """Plot the cosine of each dev pair against its gold score, and the mean cosine of each half point."""
    figure = new_figure(5.5, 4.5)
    axis = figure.add_subplot()
    axis.scatter(gold, cosines, s=8, alpha=0.35, linewidths=0, color="tab:blue")
    bins = np.round(np.asarray(gold) * 2) / 2
    levels = np.unique(bins)
    means = [cosines[bins == level].mean() for level in levels]
    axis.plot(levels, means, color="tab:orange", marker="o", markersize=4, label="mean cosine")
    axis.set(xlabel="gold score", ylabel="cosine", title=title)
    axis.grid(alpha=0.25)
    axis.legend(loc="lower right")
    save_figure(figure, path)

"""The figures that can be drawn: what each needs, and the commands that make it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class FigureSpec:
    """A figure of a paper.

    Attributes:
        title: Paper, number and content.
        needs: Runs that it is drawn from.
        commands: Commands that make these runs and draw the figure.
        drawn_from: What it is drawn from: the runs of a table (``--table``), or run folders.
        chooses_sentences: Whether ``--on`` chooses between test and dev sentences.
    """

    title: str
    needs: str
    commands: tuple[str, ...]
    drawn_from: Literal["nothing", "table", "runs", "evaluations"] = "table"
    chooses_sentences: bool = False


def _from_table(name: str, table: str, more: str = "") -> tuple[str, ...]:
    """Commands of a figure whose runs are those of a table, at a small scale."""
    return (
        f"sts-lightning reproduce {table} --model minilm",
        f"sts-lightning reproduce figure {name} --table {table} --model minilm{more}",
    )


WATCHED = "python train.py -m experiment=simcse_unsup callbacks=rank_monitor"
PAIR = ' --row SimCSE --row "SimCSE + RR"'

FIGURES = {
    "regression_figure2": FigureSpec(
        "STS-Regression, Figure 2 (Translated ReLU and Smooth K2)",
        "no run",
        ("sts-lightning reproduce figure regression_figure2",),
        drawn_from="nothing",
    ),
    "rank_figure1": FigureSpec(
        "Rank reduction, Figure 1 (rank and score of systems with and without it)",
        "runs with evaluation.rank=true, or --on dev and runs with callbacks=rank_monitor",
        _from_table("rank_figure1", "rank_table2"),
        chooses_sentences=True,
    ),
    "rank_figure2": FigureSpec(
        "Rank reduction, Figure 2 (rank and score over steps), for runs with and without it",
        "runs with callbacks=rank_monitor",
        _from_table("rank_figure2", "rank_table2", PAIR),
    ),
    "rank_figure3": FigureSpec(
        "Rank reduction, Figure 3 (alignment and uniformity of two dropout views over steps)",
        "runs with callbacks=rank_monitor callbacks.rank_monitor.views=dropout",
        (
            f"{WATCHED} callbacks.rank_monitor.views=dropout seed=1 hydra.sweep.dir=runs/views",
            "sts-lightning reproduce figure rank_figure3 runs/views/*",
        ),
        drawn_from="runs",
    ),
    "rank_figure4": FigureSpec(
        "Rank reduction, Figure 4 (probing tasks over steps)",
        "evaluations on the probing tasks of the weights that trainer.keep_every keeps",
        (
            "python train.py experiment=simcse_unsup callbacks=rank_monitor trainer.keep_every=500 "
            "hydra.run.dir=runs/kept",
            "python eval.py -m ckpt=runs/kept step=0,500,1000 suite=probing hydra.sweep.dir=runs/probing",
            "sts-lightning reproduce figure rank_figure4 runs/probing/*",
        ),
        drawn_from="evaluations",
    ),
    "rank_figure6": FigureSpec(
        "Rank reduction, Figure 6 (rank against standard deviation over seeds)",
        "two seeds or more of three systems or more, with ranks as for rank_figure1",
        _from_table(
            "rank_figure6", "rank_table2", " --row SimCSE --row MixCSE --row ESimCSE --row PromptBERT"
        ),
        chooses_sentences=True,
    ),
    "rank_figure7": FigureSpec(
        "Rank reduction, Figure 7 (ends of phase 2 of several seeds)",
        "runs with callbacks=rank_monitor",
        _from_table("rank_figure7", "rank_table2", PAIR),
    ),
}
"""The figures by name."""

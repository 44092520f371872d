"""Scores of a grid of heads, and the run folder of each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset

from sts_lightning.choices import Aggregate
from sts_lightning.config.machine import Machine, decided
from sts_lightning.data.module import SentenceDataModule
from sts_lightning.data.pair_tables import values_of
from sts_lightning.data.readers.senteval import STSTask
from sts_lightning.evaluation.dev_scores import MONITOR, DevScores, score_dev
from sts_lightning.evaluation.encoding import Embedded
from sts_lightning.evaluation.sts import STSResult, score_tasks, spearman_row
from sts_lightning.files import write_atomic
from sts_lightning.losses.siamese import SiameseRegressionLoss
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.runs.environment import environment
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics, as_plain
from sts_lightning.runs.predictions import save_predictions
from sts_lightning.training.assembly import make_module
from sts_lightning.training.trainer import Plan
from sts_lightning.workflows.head_cells import Cell

RESULTS = "heads.json"
"""File of a finished grid with the scores of all heads."""


@dataclass(frozen=True)
class Shared:
    """What all heads of a grid have in common.

    Attributes:
        encoder: The frozen encoder.
        data: Training pairs and dev pairs.
        tasks: Test tasks, none with ``evaluation.final=false``.
        machine: The hardware, and the settings that depend on it.
        plan: Length of the runs.
    """

    encoder: SentenceEncoder
    data: SentenceDataModule
    tasks: list[STSTask]
    machine: Machine
    plan: Plan

    @property
    def tables(self) -> list[Dataset]:
        """The dev pairs, then those of the subsets of each test task."""
        return [self.data.dev, *(table for task in self.tasks for table in task.subsets.values())]


@dataclass(frozen=True)
class PairScores:
    """Correlations with the gold scores; ``test`` is None where there are no test tasks."""

    dev: DevScores
    test: STSResult | None

    def row(self) -> dict[str, float]:
        """Return Spearman times 100 of dev, each task and their average."""
        return {"dev": self.dev["spearman"], **(spearman_row(self.test) if self.test else {})}


@dataclass(frozen=True)
class Head:
    """A trained head.

    Attributes:
        cell: Its place in the grid.
        loss: The loss with the trained head.
        losses: Its training loss at each step, (steps,).
        scores: Correlations of its predictions.
    """

    cell: Cell
    loss: SiameseRegressionLoss
    losses: np.ndarray
    scores: PairScores


@dataclass(frozen=True)
class Grid:
    """The heads of a grid.

    Attributes:
        heads: The heads.
        cosine: Correlations of the frozen encoder's cosine, which no head changes.
        cosines: These cosines, of each table.
        seconds: Duration of each part.
    """

    heads: list[Head]
    cosine: PairScores
    cosines: list[np.ndarray]
    seconds: dict[str, float]


def pair_scores(shared: Shared, values: Sequence[np.ndarray], aggregate: Aggregate) -> PairScores:
    """Correlate a value of each pair with the gold scores.

    Args:
        shared: What the heads have in common.
        values: Values of the pairs of each of its tables.
        aggregate: How the subsets of a task become one score.
    """
    dev, *tests = values
    test = score_tasks(shared.tasks, tests, aggregate) if shared.tasks else None
    return PairScores(score_dev(dev, shared.data.dev), test)


@torch.no_grad()
def head_scores(
    shared: Shared, vectors: Embedded, loss: SiameseRegressionLoss, aggregate: Aggregate
) -> PairScores:
    """Correlate the predictions of a head, not clamped, with the gold scores.

    Args:
        shared: What the heads have in common.
        vectors: Vectors of all sentences of its tables.
        loss: The loss with the head.
        aggregate: How the subsets of a task become one score.
    """
    predicted = []
    for table in shared.tables:
        views = [torch.from_numpy(vectors[values_of(table, name)]) for name in ("sentence1", "sentence2")]
        predicted.append(loss.predict(*views).double().numpy())
    return pair_scores(shared, predicted, aggregate)


def write_grid(grid: Grid, shared: Shared, folder: Path) -> None:
    """Write each head as a finished run, then `RESULTS`, which marks the grid as finished.

    Args:
        grid: The heads.
        shared: What they have in common.
        folder: Folder of the grid.
    """
    for head in grid.heads:
        _write_run(head, shared, grid, RunFolder(folder / head.cell.name))
    record = {
        "cosine": grid.cosine.row(),
        "heads": [
            {**head.cell.values, "last_loss": float(head.losses[-1]), **head.scores.row()}
            for head in grid.heads
        ],
        "seconds": grid.seconds,
        **environment(),
    }
    write_atomic(folder / RESULTS, json.dumps(record, indent=1) + "\n")


def _write_run(head: Head, shared: Shared, grid: Grid, run: RunFolder) -> None:
    """Write what a finished run has; its scores are those of the encoder's cosine, as in any run."""
    cfg, steps = head.cell.cfg, shared.plan.total_steps
    run.path.mkdir(exist_ok=True)
    run.save_config(decided(cfg, shared.machine))
    module = make_module(cfg, shared.machine.precision, shared.encoder, head.loss, None, shared.plan)
    weights = {"state_dict": module.state_dict(), "global_step": steps, "epoch": shared.plan.epochs}
    run.write_checkpoint("best", weights)
    run.write_checkpoint("last", weights)
    rows = [f"{step},{value}," for step, value in enumerate(head.losses.tolist(), start=1)]
    rows[-1] += str(grid.cosine.dev["spearman"])
    write_atomic(run.history_file, "\n".join([f"step,train/loss,{MONITOR}", *rows]) + "\n")
    if shared.tasks:
        save_predictions(run, shared.tasks, grid.cosines[1:])
    details: dict[str, Any] = {
        "head": {"dev": head.scores.dev, "test": head.scores.test},
        "best_step": steps,
        "steps": steps,
        "seed": cfg.seed,
        "precision": shared.encoder.precision,
        "quantization": cfg.model.get("quantization", "none"),
        "machine": shared.machine.record(),
        **shared.encoder.evaluation_text,
        "senteval_text": shared.data.text,
        "trained_on": as_plain((shared.data.trained_on,)),
        "wall_seconds": round(sum(grid.seconds.values()) / len(grid.heads), 1),
        **environment(),
    }
    run.save_metrics(RunMetrics(grid.cosine.test, {**grid.cosine.dev}, details))

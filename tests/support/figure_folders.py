"""Run folders with synthetic results, to draw figures from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from omegaconf import DictConfig

from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics

STEPS = [0, 10, 20, 30]


def write_folder(
    folder: Path,
    cfg: DictConfig,
    ranks: Sequence[float],
    scores: Sequence[float],
    test: tuple[float, float] | None = None,
    more: Mapping[str, Sequence[float]] | None = None,
) -> Path:
    """A finished run with a rank monitor at `STEPS`; ``test``: average on the test sets, and their rank."""
    run = RunFolder(folder)
    folder.mkdir(parents=True)
    run.save_config(cfg)
    columns = {"step": STEPS, "rank/energy": ranks, "rank/spearman": scores, **(more or {})}
    rows = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    run.history_file.write_text("\n".join(rows) + "\n")
    best = max(range(len(scores)), key=lambda place: scores[place])
    details: dict[str, object] = {"best_step": STEPS[best]}
    report = None
    if test is not None:
        report = {"average": test[0], "tasks": {"STSB": {"spearman": test[0]}}}
        details["rank"] = {"average": test[1]}
    run.save_metrics(RunMetrics(report, {"spearman": scores[best]}, details))
    return folder


def write_probing(folder: Path, ckpt: Path, step: int | None, accuracy: float) -> Path:
    """An evaluation of a step on two probing tasks."""
    folder.mkdir(parents=True)
    tasks = {"Length": {"score": accuracy}, "WordContent": {"score": accuracy + 1}}
    details = {"suite": "probing", "ckpt": str(ckpt), "step": step}
    RunFolder(folder).save_metrics(RunMetrics({"average": accuracy, "tasks": tasks}, details=details))
    return folder

"""Scores of finished runs, read back from their folders."""

from __future__ import annotations

import json
from pathlib import Path

from sts_lightning.errors import CheckpointError


def read_scores(run: Path) -> dict[str, float]:
    """Dev and test Spearman of a finished run, as far as it has them.

    Raises:
        CheckpointError: The run has no readable metrics.json.
    """
    path = run / "metrics.json"
    try:
        metrics = json.loads(path.read_text(encoding="utf-8"))
        row = {"dev": float(metrics["dev"]["spearman"])} if "dev" in metrics else {}
        if metrics["test"] is not None:
            tasks = metrics["test"]["tasks"]
            row |= {
                name: float(task["spearman" if "spearman" in task else "score"])
                for name, task in tasks.items()
            }
            row["average"] = float(metrics["test"]["average"])
    except FileNotFoundError as error:
        raise CheckpointError(f"{run} has no metrics.json: it is not a finished run.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is broken ({type(error).__name__}: {error}).") from error
    return row


def read_memory(run: Path) -> float | None:
    """Peak memory of a finished run in GB, of the GPU if it had one; None where it was not measured."""
    try:
        peak = json.loads((run / "metrics.json").read_text(encoding="utf-8")).get("peak_memory_bytes", {})
        return float(peak.get("cuda") or peak["host"]) / 1e9
    except (OSError, ValueError, KeyError, AttributeError):
        return None

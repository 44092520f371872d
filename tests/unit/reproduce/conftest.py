"""A small table, of which two rows have finished."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy import stats

from sts_lightning.data.counts import TrainingCount
from sts_lightning.reproduce.table import Row, Table, TableSpec
from sts_lightning.runs.folder import RunFolder

STS = "sts_lightning.data.sts_train.sts_train"

GOLD = np.repeat(np.arange(5.0), 20)

STATED = {
    "senteval_text": "prepared",
    "text_edit": "official",
    "max_length": None,
    "precision": "32-true",
    "quantization": "none",
    "training": {"max_length": 64, "precision": "bf16-mixed", "quantization": "4bit"},
}


def spec() -> TableSpec:
    return TableSpec(
        title="Toy & <others>",
        seeds=[1, 2],
        models=["minilm"],
        columns=["STSB", "average"],
        rows={
            "plain": Row(["loss=cosent"]),
            "a|b_c": Row(["loss=pearson"]),
            "absent": Row(["loss=mse"]),
            "untuned": Row(eval=[]),
        },
        published={
            "minilm": {
                "plain": [80.0, 80.5],
                "a|b_c": [81.0, 81.5],
                "absent": [70.0, 70.5],
                "untuned": [1.0, 2.0],
            },
            "cited": {"closed": [60.0, 60.5]},
        },
        why={"closed": "a service"},
        baselines=["plain"],
    )


def folders(table: Table, row: str) -> list[RunFolder]:
    """Return the folders of the runs of a row."""
    jobs, _ = table.jobs()
    (cell,) = (cell for cell in table.cells if cell.row == row)
    return [RunFolder(jobs[run].folder) for run in table.runs(cell)]


def finish(
    run: RunFolder,
    noise: float,
    seed: int,
    dev: str = "stsb",
    version: str = "1.0",
    counts: Sequence[TrainingCount | None] = (),
) -> np.ndarray:
    """Write what a finished run leaves; returns its cosines."""
    cosines = np.tanh((GOLD + noise * np.random.default_rng(seed).normal(size=len(GOLD))) / 10)
    score = 100 * float(stats.spearmanr(cosines, GOLD).statistic)
    run.path.mkdir(parents=True)
    metrics = STATED | {
        "dev": {"spearman": 80.0 + seed},
        "test": {"tasks": {"STSB": {"spearman": score}}, "average": score},
        "seed": seed,
        "versions": {"sts-lightning": version},
        "peak_memory_bytes": {"host": seed * 1_000_000_000},
        "trained_on": [None if count is None else asdict(count) for count in counts],
    }
    run.metrics_file.write_text(json.dumps(metrics))
    run.config_file.write_text(yaml.safe_dump({"data": {"_target_": STS}, "dev": dev, "seed": seed}))
    np.savez(run.predictions_file, **{"STSB/cosine": cosines, "STSB/gold": GOLD})
    return cosines


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table("toy", spec(), tmp_path)


@pytest.fixture
def cosines(table: Table) -> dict[str, list[np.ndarray]]:
    """Of the first two rows, which have finished."""
    return {
        name: [finish(run, noise, seed) for seed, run in enumerate(folders(table, name), 1)]
        for name, noise in (("plain", 4.0), ("a|b_c", 1.0))
    }


def lines(text: str, name: str) -> list[list[str]]:
    """The cells of the rows of that name in a Markdown table."""
    rows = [
        line.replace("\\|", "¦")[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ")
    ]
    return [row for row in rows if row[0] == name.replace("|", "¦")]

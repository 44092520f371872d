"""A small table whose first two rows have finished."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy import stats

from sts_lightning.reproduce.plan import Cell, Table, TableRun
from sts_lightning.reproduce.spec import Requirements, RowSpec, TableSpec

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452")


STS = "sts_lightning.data.sts_train.sts_train"

GOLD = np.repeat(np.arange(5.0), 20)


def spec() -> TableSpec:
    return TableSpec(
        title="Toy & <others>",
        needs=Requirements(hours=1),
        seeds=[1, 2, 3],
        models=["minilm"],
        columns=["STSB", "average"],
        rows={
            "plain": RowSpec(["loss=cosent"]),
            "a|b_c": RowSpec(["loss=pearson"]),
            "absent": RowSpec(["loss=mse"]),
        },
        published={
            "minilm": {"plain": [80.0, 80.5], "absent": [70.0, 70.5]},
            "cited": {"closed": [60.0, 60.5]},
        },
        why={"closed": "a service"},
        baselines=["plain"],
    )


def finish(run: TableRun, noise: float, seed: int) -> float:
    """Write what a finished run leaves; returns its score."""
    cosines = np.tanh((GOLD + noise * np.random.default_rng(seed).normal(size=len(GOLD))) / 10)
    score = 100 * float(stats.spearmanr(cosines, GOLD).statistic)
    (run.folder / "plots").mkdir(parents=True)
    (run.folder / "plots" / "curves.png").write_bytes(PNG)
    metrics = {
        "dev": {"spearman": 80.0 + seed},
        "test": {"tasks": {"STSB": {"spearman": score}}, "average": score},
        "peak_memory_bytes": {"host": 2_000_000_000},
    }
    (run.folder / "metrics.json").write_text(json.dumps(metrics))
    run.run_folder.config_file.write_text(yaml.safe_dump({"data": {"_target_": STS}, "dev": "stsb"}))
    np.savez(run.folder / "predictions.npz", **{"STSB/cosine": cosines, "STSB/gold": GOLD})
    return score


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(spec(), tmp_path)


@pytest.fixture
def scores(table: Table) -> dict[str, list[float]]:
    """Of the first two rows, which have finished."""
    return {
        name: [finish(run, noise, n) for n, run in enumerate(table.seed_runs(Cell(name, "minilm")))]
        for name, noise in (("plain", 2.0), ("a|b_c", 1.0))
    }


def lines(text: str, name: str) -> list[list[str]]:
    """The cells of the rows of that name in a Markdown table."""
    rows = [line.replace("\\|", "¦").strip("| ").split(" | ") for line in text.splitlines() if "|" in line]
    return [row for row in rows if row[0] == name.replace("|", "¦")]

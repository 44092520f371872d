"""Optuna's sweeper on the project's launcher."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.conftest import SHORT_RUN

pytest.importorskip("optuna", reason="needs the extra optuna")


def test_it_maximises_the_dev_score_and_survives_failures(
    cli: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    command = [
        "train.py",
        "-m",
        "hydra/sweeper=search",
        "hydra.sweeper.n_trials=6",
        "hydra.sweeper.max_failure_rate=1",
        "hydra.launcher.jobs=2",
        *SHORT_RUN,
        "logger=csv",
        "trainer.max_steps=4",
        "optim.lr=choice(-1,1e-5,1e-2)",  # six proposals of three values: some come twice at a time
    ]
    done = cli(*command)
    assert done.returncode == 0, done.stderr
    assert "optim.lr=-1.0: Input should be greater than 0" in done.stdout + done.stderr
    scores = {
        path.parent.name: json.loads(path.read_text())["dev"]["spearman"]
        for path in tmp_path.glob("runs/toy-pearson-tiny_bert/*/metrics.json")
    }
    assert len(scores) == 2
    best = yaml.safe_load(
        (tmp_path / "runs" / "toy-pearson-tiny_bert" / "optimization_results.yaml").read_text()
    )
    assert best["best_value"] == max(scores.values())
    assert float(best["best_params"]["optim.lr"]) == 1e-2

    again = cli(*command)
    assert again.returncode == 0, again.stderr
    assert "was done: " in again.stdout
    assert "\ndone: " not in again.stdout

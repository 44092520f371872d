"""Debug runs."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sts_lightning.workflows.start import train_in
from tests.conftest import SHORT_RUN
from tests.runs.test_run import Config
from tests.support.whole_runs import metrics

Cli = Callable[..., subprocess.CompletedProcess[str]]


def losses(run: Path) -> list[float]:
    with (run / "history.csv").open() as file:
        return [float(row["train/loss"]) for row in csv.DictReader(file) if row["train/loss"]]


def test_fast(cli: Cli, tmp_path: Path) -> None:
    done = cli("train.py", "debug=fast", "callbacks=early_stopping", "trainer.wise_ft=[0.5]", *SHORT_RUN)
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs" / "debug-toy-pearson-tiny_bert").iterdir()
    assert metrics(run)["steps"] == 2
    assert metrics(run)["test"] is None
    assert metrics(run)["wise_ft"]["share"] in (0.5, 1)
    assert not (run / "tensorboard").exists()


@pytest.mark.parametrize("loss", ["pearson", "infonce"])
def test_overfit(loss: str, config: Config, tmp_path: Path) -> None:
    kind = ["data.kind=sentences", "data.views=2"] if loss == "infonce" else []
    chosen = ["debug=overfit", f"loss={loss}", "optim.lr=2e-3", "optim.warmup=0"]
    train_in(tmp_path, config(*chosen, *SHORT_RUN, *kind))
    found = losses(tmp_path)
    assert len(found) == 100
    assert found[-1] < 1e-3 < found[0]


def test_without_dropout_every_step_of_a_model_that_stands_still_has_one_loss(
    config: Config, tmp_path: Path
) -> None:
    train_in(tmp_path, config("debug=overfit", "optim.lr=1e-12", "trainer.max_steps=4", *SHORT_RUN))
    assert losses(tmp_path) == pytest.approx([losses(tmp_path)[0]] * 4, abs=1e-6)


@pytest.mark.parametrize(
    ("profiler", "word"), [("simple", "optimizer_step"), ("advanced", "cumtime"), ("pytorch", "aten::")]
)
def test_profile(profiler: str, word: str, config: Config, tmp_path: Path) -> None:
    chosen = ["debug=profile", f"trainer.extra.profiler={profiler}", "trainer.max_steps=6"]
    train_in(tmp_path, config(*chosen, *SHORT_RUN))
    assert word in (tmp_path / "fit-profile.txt").read_text()
    assert list(tmp_path.glob("fit-profile-*.pt.trace.json")) or profiler != "pytorch"

"""Averages of the selected weights and the start, against ones computed from the weights of a usual run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import sts_lightning
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows import report
from sts_lightning.workflows.start import train_in
from sts_lightning.workflows.verify import verify
from tests.conftest import SHORT_RUN
from tests.runs.test_wise_ft import MIXED, TOO_FAST, Config, start_of
from tests.runs.test_wise_ft import mixed as mixed
from tests.runs.test_wise_ft import usual as usual
from tests.support.averaged_runs import dev_of
from tests.support.whole_runs import metrics, same_results, weights


def test_what_reads_runs_reads_the_average(usual: Path, mixed: Path) -> None:
    text = ["abc"]
    assert abs(sts_lightning.load(mixed).encode(text) - sts_lightning.load(usual).encode(text)).max() > 1e-3
    assert "model" in dict(verify(RunFolder(mixed)))
    end = weights(mixed, "final")  # of the last step, which no average has changed
    for name, value in weights(usual).items():
        assert torch.equal(end[name], value), name


def test_the_start_is_that_of_init_from(usual: Path, config: Config, tmp_path: Path) -> None:
    second = [*TOO_FAST, f"init_from={usual}", "seed=2"]
    train_in(tmp_path / "plain", config(*second))
    train_in(tmp_path / "mixed", config(*second, "trainer.wise_ft=[0]", "evaluation.final=false"))
    expected = {
        1.0: dev_of(usual, weights(tmp_path / "plain")),
        0.0: dev_of(usual, weights(usual)),
    }
    found = metrics(tmp_path / "mixed")["wise_ft"]["dev"]
    assert {float(share): dev for share, dev in found.items()} == pytest.approx(expected, abs=1e-2)


def test_the_start_may_be_a_run_that_trained_a_head_alone(config: Config, tmp_path: Path) -> None:
    head = [*TOO_FAST, "loss=mse", "optim.freeze=encoder", "evaluation.final=false"]
    train_in(tmp_path / "head", config(*head))
    second = [*TOO_FAST, f"init_from={tmp_path / 'head'}", "trainer.wise_ft=[0]", "evaluation.final=false"]
    train_in(tmp_path / "mixed", config(*second))
    found = metrics(tmp_path / "mixed")["wise_ft"]["dev"]
    cfg = RunFolder(tmp_path / "mixed").load_config()
    assert found["0"] == pytest.approx(dev_of(tmp_path / "mixed", start_of(cfg)), abs=1e-2)


def test_a_report_that_was_cut_keeps_its_average(
    mixed: Path, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*arguments: Any) -> None:
        raise RuntimeError("power cut")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="power cut"):
        patch.setattr(report, "save_predictions", cut)
        train_in(tmp_path / "run", config(*TOO_FAST, MIXED))
    train_in(tmp_path / "run", config(*TOO_FAST, MIXED), resume=True)
    same_results(mixed, tmp_path / "run")
    assert metrics(mixed)["wise_ft"] == metrics(tmp_path / "run")["wise_ft"]


@pytest.mark.parametrize("precision", ["32-true", "bf16-true"])
def test_a_run_that_is_best_at_its_end_stays_as_it_is(precision: str, config: Config, tmp_path: Path) -> None:
    helpful = [*SHORT_RUN, "optim.lr=1e-3", "trainer.max_epochs=1", "evaluation.final=false"]
    helpful += [f"evaluation.precision={precision}"]
    train_in(tmp_path / "usual", config(*helpful))
    train_in(tmp_path / "mixed", config(*helpful, "trainer.wise_ft=[0,0.1]"))
    assert metrics(tmp_path / "mixed")["wise_ft"]["share"] == 1
    same_results(tmp_path / "usual", tmp_path / "mixed")

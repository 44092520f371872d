"""Whole runs on an emulated GPU: no tensor on the wrong device, no operation that determinism rejects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

from sts_lightning.core.errors import InterruptedRunError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.start import train_in
from tests.support.emulated_runs import DECODER, TOY_RUN, check_synchronisations, run_emulated
from tests.support.interruptions import StopAt
from tests.support.whole_runs import metrics, same_results

Config = Callable[..., DictConfig]


def test_an_encoder_gets_the_scores_of_the_cpu(config: Config, tmp_path: Path) -> None:
    exact = ["model=tiny_bert", "model.dropout=0", "precision=32-true", "optim.lr=1e-3"]
    check_synchronisations(run_emulated(tmp_path / "gpu", config(*TOY_RUN, *exact)))
    train_in(tmp_path / "cpu", config(*TOY_RUN, *exact, "trainer=cpu"))
    there, here = metrics(tmp_path / "gpu"), metrics(tmp_path / "cpu")
    assert there["machine"]["accelerator"] == "gpu"
    assert there["peak_memory_bytes"]["cuda"] > 0
    assert there["dev"]["spearman"] == pytest.approx(here["dev"]["spearman"], abs=1e-6)
    assert there["test"]["average"] == pytest.approx(here["test"]["average"], abs=1e-6)


def test_a_decoder_trains_with_lora_in_micro_batches(config: Config, tmp_path: Path) -> None:
    settings = ["trainer.micro_batch_size=4", "evaluation.precision=bf16-true"]
    check_synchronisations(run_emulated(tmp_path / "run", config(*TOY_RUN, *DECODER, *settings)))
    assert metrics(tmp_path / "run")["machine"]["precision"] == "bf16-mixed"


def test_a_resumed_run_ends_with_the_numbers_of_an_uninterrupted_one(config: Config, tmp_path: Path) -> None:
    settings = [*TOY_RUN, "model=tiny_bert", "trainer.max_epochs=2", "trainer.log_every_n_steps=1"]
    run_emulated(tmp_path / "whole", config(*settings))
    with pytest.raises(InterruptedRunError):
        run_emulated(tmp_path / "run", config(*settings), StopAt(6))
    run_emulated(tmp_path / "run", RunFolder(tmp_path / "run").load_config(), resume=True)
    same_results(tmp_path / "whole", tmp_path / "run")

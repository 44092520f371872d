"""Callbacks of every run, called as Lightning calls them."""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sts_lightning.errors import CheckpointError
from sts_lightning.training.callbacks import DevReport, RandomState, Throughput


def stand_in(**values: Any) -> Any:
    """A Trainer, module or batch that has these attributes only."""
    return SimpleNamespace(**values)


ALONE = stand_in(global_rank=0, world_size=1)


def test_throughput_is_the_mean_over_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(
        [0.0, 1.0, 5.0, 7.0, 20.0, 22.0]
    )  # steps of 1, 2 and 2 seconds; time between them is not counted
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    logged: dict[str, list[float]] = {"steps_per_second": [], "tokens_per_second": []}
    module = stand_in(log=lambda name, value, **_: logged[name].append(value))
    throughput = Throughput(window=2)
    for tokens in (10, 20, 60):
        batch = stand_in(rows=stand_in(num_tokens=tokens))
        throughput.on_train_batch_start(ALONE, module, batch, 0)
        throughput.on_train_batch_end(stand_in(world_size=2), module, None, batch, 0)
    assert logged["steps_per_second"] == pytest.approx([1 / 1, 2 / 3, 2 / 4])
    assert logged["tokens_per_second"] == pytest.approx([20 / 1, 60 / 3, 160 / 4])


def test_random_numbers_continue_where_the_checkpoint_was_written() -> None:
    torch.manual_seed(3)
    saved = RandomState().state_dict()
    expected = torch.rand(4)
    torch.manual_seed(99)  # as a new process begins
    resumed = RandomState()
    resumed.load_state_dict(saved)
    torch.rand(7)  # the set-up draws numbers too
    resumed.on_train_batch_start(ALONE, ALONE, None, 0)
    assert torch.equal(torch.rand(4), expected)
    resumed.on_train_batch_start(ALONE, ALONE, None, 1)  # only once
    assert not torch.equal(torch.rand(4), expected)


def test_processes_draw_different_numbers() -> None:
    draws = []
    for rank in (0, 1, 2):
        torch.manual_seed(5)
        RandomState().on_fit_start(stand_in(global_rank=rank), ALONE)
        draws.append(torch.rand(3))
    assert not torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[1], draws[2])
    torch.manual_seed(5)
    assert torch.equal(draws[0], torch.rand(3))


def test_another_number_of_processes_cannot_resume() -> None:
    states = RandomState().state_dict()["processes"]
    with pytest.raises(CheckpointError, match="2 processes, not 1"):
        RandomState().load_state_dict({"processes": states * 2})


def test_one_line_for_each_dev_evaluation(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        report = DevReport()
        score = {"dev/spearman": torch.tensor(71.234)}
        report.on_validation_end(stand_in(callback_metrics=score, global_step=0), ALONE)
        metrics = score | {"train/loss": torch.tensor(0.5)}
        report.on_validation_end(stand_in(callback_metrics=metrics, global_step=8), ALONE)
        report.on_validation_end(stand_in(callback_metrics={}, global_step=9), ALONE)
    assert caplog.messages == ["step 0, dev Spearman 71.23", "step 8, loss 0.5000, dev Spearman 71.23"]

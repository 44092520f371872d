"""What TensorBoard shows of a run, read from its folder by TensorBoard's own reader."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sts_lightning.core.errors import InterruptedRunError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.command import train_in
from tests.support.interruptions import StopAt
from tests.support.whole_runs import EPOCHS
from tests.unit.workflows.test_logged import Config


def events(run: Path) -> EventAccumulator:
    sizes = {"scalars": 0, "images": 0, "tensors": 0}
    return EventAccumulator(str(run / "tensorboard"), size_guidance=sizes).Reload()


def scalars(run: Path) -> dict[str, list[tuple[int, float]]]:
    found = events(run)
    other = {"steps_per_second", "tokens_per_second", "epoch"}  # timed, or twice at an evaluation
    return {
        tag: [(event.step, event.value) for event in found.Scalars(tag)]
        for tag in found.Tags()["scalars"]
        if tag not in other
    }


def test_settings_scores_and_plots_also_after_a_stop(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "do not tell")
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    train_in(whole, config(*EPOCHS))
    with pytest.raises(InterruptedRunError):
        train_in(cut, config(*EPOCHS), callbacks=[StopAt(13)])
    train_in(cut, RunFolder(cut).load_config(), resume=True)
    assert scalars(whole) == scalars(cut)
    found = scalars(whole)
    history = [row for row in RunFolder(whole).history() if "train/loss" in row]
    assert [step for step, _ in found["train/loss"]] == [row["step"] for row in history]
    metrics = RunFolder(whole).metrics()
    for name, value in metrics.scores.items():
        assert found[f"final/{name}"] == [(32, pytest.approx(value))]
    assert found["hp_metric"] == [(0, -1), (32, pytest.approx(metrics.score))]
    for run in (whole, cut):
        accumulated = events(run)
        assert accumulated.Tags()["images"] == ["plots/curves", "plots/dev_cosines"]
        assert [image.step for image in accumulated.Images("plots/curves")] == [32]
        content = b"".join(path.read_bytes() for path in (run / "tensorboard").iterdir())
        assert content.count(b"optim.betas") == 3  # a column, its value, and in hparams.yaml
        assert b"do not tell" not in content
        assert os.environ["HOME"].encode() not in content

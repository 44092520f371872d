"""Weights kept during training, dropout views that leave training as it is, and evaluation by step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import DictConfig

from sts_lightning.core.errors import CheckpointError, ConfigError, InterruptedRunError
from sts_lightning.evaluation.suites import Suite
from sts_lightning.models.loading.run import load
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows import evaluate
from sts_lightning.workflows.start import train_in
from tests.nightly.scenarios.test_resume import StopAt
from tests.support.recipes import STEPS
from tests.support.run_entries import composed
from tests.support.whole_runs import same_results, weights

Config = Callable[..., DictConfig]

WATCHED = [*STEPS, "callbacks=rank_monitor", "callbacks.rank_monitor.every=2", "evaluation.final=false"]


def test_kept_weights_and_dropout_views(tmp_path: Path, config: Config) -> None:
    plain, more = tmp_path / "plain", tmp_path / "more"
    train_in(plain, config(*WATCHED))
    train_in(more, config(*WATCHED, "trainer.keep_every=2", "callbacks.rank_monitor.views=dropout"))
    run = RunFolder(more)
    assert run.kept_steps() == [0, 2, 4]
    assert RunFolder(plain).kept_steps() == []
    history = {row["step"]: row for row in run.history()}
    for row in RunFolder(plain).history():  # no column and no number has changed
        for name, value in row.items():
            if not name.endswith("per_second"):
                assert history[row["step"]][name] == value, name
    assert history[0]["rank/dropout_alignment"] > -20  # 1 / temperature, where both views are equal
    last = weights(more, "final")
    for name, value in weights(more, 4).items():
        assert torch.equal(value, last[name]), name
    _evaluate_by_step(run, tmp_path)


def test_a_decoder_with_a_new_adapter_has_dropout_views(tmp_path: Path, config: Config) -> None:
    """At step 0 they are equal."""
    train_in(tmp_path, config(*WATCHED, "model=tiny_mistral", "callbacks.rank_monitor.views=dropout"))
    found = {row["step"]: row for row in RunFolder(tmp_path).history()}
    assert found[0]["rank/dropout_sphere_alignment"] == 0
    assert found[4]["rank/dropout_sphere_alignment"] > 0


def _evaluate_by_step(run: RunFolder, tmp_path: Path) -> None:
    texts = ["a b c", "d e"]
    vectors = [load(run.path, step).encode(texts) for step in (0, 4)]
    assert not np.allclose(*vectors)
    with pytest.raises(CheckpointError, match="0, 2, 4"):
        load(run.path, 3)
    seen: list[np.ndarray] = []

    def score(encoder: object, folder: Path) -> tuple[dict[str, object], dict[str, float]]:
        seen.append(encoder.encode(texts))  # type: ignore[attr-defined]
        return {"average": 1.0, "tasks": {}}, {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluate, "open_suite", lambda cfg, text: Suite(score))
        for step in (0, 4):
            output = tmp_path / f"at{step}"
            with composed(
                "eval", f"ckpt={run.path}", f"step={step}", "accelerator=cpu", output=output
            ) as job:
                evaluate.evaluate_in(output, job)
            details = RunFolder(output).metrics().details
            assert (details["ckpt"], details["step"]) == (str(run.path), step)
        for ours, theirs in zip(seen, vectors, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)
        with (
            composed("eval", "model=tiny_bert", "step=4", output=tmp_path / "no") as job,
            pytest.raises(ConfigError) as caught,
        ):
            evaluate.evaluate_in(tmp_path / "no", job)
    assert caught.value.key == "step"


def test_training_is_the_same_with_dropout_views_and_without(tmp_path: Path, config: Config) -> None:
    for name, views in (("none", "none"), ("dropout", "dropout")):
        dropout = "callbacks.rank_monitor.views=" + views
        train_in(tmp_path / name, config(*WATCHED, dropout, "data.kind=sentences", "loss=infonce"))
    rows = [RunFolder(tmp_path / name).history() for name in ("none", "dropout")]
    losses = [[row.get("train/loss") for row in history] for history in rows]
    assert losses[0] == losses[1]
    assert any(losses[0])
    states = [weights(tmp_path / name, "final") for name in ("none", "dropout")]
    for name, value in states[0].items():
        assert torch.equal(value, states[1][name]), name


def test_a_resumed_run_keeps_the_same_weights_and_views(tmp_path: Path, config: Config) -> None:
    settings = [*WATCHED, "trainer.keep_every=1", "callbacks.rank_monitor.views=dropout"]
    whole, cut = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "cut")
    train_in(whole.path, config(*settings))
    with pytest.raises(InterruptedRunError):
        train_in(cut.path, config(*settings), callbacks=[StopAt(3)])
    assert cut.kept_steps() == [0, 1, 2, 3]
    train_in(cut.path, cut.load_config(), resume=True)
    same_results(whole.path, cut.path)  # the columns of the views too
    assert cut.kept_steps() == whole.kept_steps() == [0, 1, 2, 3, 4]
    for step in whole.kept_steps():
        states = [weights(run.path, step) for run in (whole, cut)]
        for name, value in states[0].items():
            assert torch.equal(value, states[1][name]), (step, name)

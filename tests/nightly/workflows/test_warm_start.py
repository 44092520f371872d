"""Runs that start from the weights of an earlier one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import sts_lightning
from sts_lightning.core.errors import CheckpointError, InterruptedRunError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.start import train_in
from tests.conftest import EXACT, SHORT_DATA, SHORT_RUN
from tests.nightly.scenarios.test_recipes import overrides
from tests.runs.test_warm_start import Config
from tests.support.hub_folder import rows, save
from tests.support.interruptions import StopAt
from tests.support.whole_runs import weights


def test_a_run_starts_from_the_weights_of_another(config: Config, tmp_path: Path) -> None:
    one, after = tmp_path / "one", tmp_path / "after"
    train_in(one, config(*overrides("stage2")))
    end = weights(one)
    short = ["trainer.max_steps=1", "optim.lr=1e-12", "optim.warmup=0", "trainer.max_epochs=-1"]
    train_in(after, config(*overrides("stage2"), f"init_from={one}", *short))
    start = weights(after)
    for name, value in end.items():
        torch.testing.assert_close(start[name], value, atol=1e-9, rtol=0)
    metrics = RunFolder(after).metrics()
    assert len(metrics.trained_on) == 2
    assert metrics.details["earlier"][0]["wall_seconds"] > 0


def test_a_frozen_encoder_that_came_from_a_run_is_kept(config: Config, tmp_path: Path) -> None:
    tuned, head = tmp_path / "tuned", tmp_path / "head"
    train_in(tuned, config(*overrides("stage2")))
    train_in(head, config(*overrides("regression_head"), f"init_from={tuned}"))
    texts = ["The boy hid a rug .", "A farmer ."]
    np.testing.assert_allclose(
        sts_lightning.load(head).encode(texts), sts_lightning.load(tuned).encode(texts), atol=1e-6
    )


def test_starting_from_another_model_is_refused(config: Config, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train_in(run, config(*overrides("stage2")))
    with pytest.raises(CheckpointError, match="weights differ in name or shape"):
        train_in(tmp_path / "x", config(*overrides("stage2"), f"init_from={run}", "model.hidden_size=16"))
    with pytest.raises(CheckpointError, match="was trained from model"):
        train_in(
            tmp_path / "y",
            config(*[text for text in overrides("stage2") if text != "model=tiny_bert"], f"init_from={run}"),
        )
    with pytest.raises(CheckpointError, match="is not a run folder"):
        train_in(tmp_path / "z", config(*overrides("stage2"), f"init_from={tmp_path / 'absent'}"))


def test_starting_from_another_adapter_is_refused(config: Config, tmp_path: Path) -> None:
    small = [*overrides("pcc_stage2"), "evaluation.final=false"]
    train_in(tmp_path / "first", config(*small))
    for changed, was, given in (("r=4", "r=8", "4"), ("lora_alpha=80", "lora_alpha=[0-9]+", "80")):
        more = config(*small, f"init_from={tmp_path / 'first'}", f"model.adapter.{changed}")
        with pytest.raises(
            CheckpointError, match=rf"was trained with another adapter \({was}, not {given}\)"
        ):
            train_in(tmp_path / "second", more)


def test_a_head_of_another_shape_is_left_out(
    config: Config, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """From classes of NLI to scores, the usual order of the two."""
    caplog.set_level("INFO", logger="sts_lightning")
    short = [*SHORT_RUN, "evaluation.final=false", "trainer.max_steps=2", "trainer.max_epochs=-1"]
    train_in(tmp_path / "nli", config(*short, "data.kind=classes", "loss=cross_entropy"))
    train_in(tmp_path / "sts", config(*short, "loss=mse", f"init_from={tmp_path / 'nli'}"))
    assert "no head" in caplog.text


@pytest.mark.parametrize(("seed", "warned"), [(1, False), (2, True)])
def test_dev_pairs_that_the_start_has_seen_are_told(
    seed: int, warned: bool, config: Config, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`data.seed` draws the dev pairs from the training pairs."""
    path = save(tmp_path, "mine", rows(40), "csv")
    data = [*SHORT_DATA, "data=pairs_file", f"path={path}", "data.batch_size=8", "data.dev_fraction=0.2"]
    data = [
        text for text in data if not text.startswith(("data=toy", "data.train", "data.dev_s", "data.test"))
    ]
    short = [*data, "model=tiny_bert", "trainer.max_steps=2", "trainer.max_epochs=-1", EXACT]
    train_in(tmp_path / "one", config(*short, "seed=1"))
    train_in(tmp_path / "two", config(*short, f"data.seed={seed}", f"init_from={tmp_path / 'one'}"))
    assert ("has trained on dev pairs of this run" in caplog.text) == warned


def test_a_start_that_has_not_finished_is_named(config: Config, tmp_path: Path) -> None:
    short = [*SHORT_RUN, "evaluation.final=false"]
    with pytest.raises(InterruptedRunError):
        train_in(tmp_path / "cut", config(*short), callbacks=[StopAt(3)])
    with pytest.raises(CheckpointError, match="has not finished; resume="):
        train_in(tmp_path / "next", config(*short, f"init_from={tmp_path / 'cut'}", "trainer.init=final"))

"""Configurations of runs of other versions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from sts_lightning.config import versions
from sts_lightning.core.errors import CheckpointError
from sts_lightning.runs.folder import RunFolder
from tests.conftest import SHORT_RUN

Config = Callable[..., DictConfig]

SETTINGS = (
    *(*SHORT_RUN, "name=x", "loss=infonce", "data.kind=triplets", "optim.warmup=0.3", "callbacks=ema"),
    *("evaluation.aggregate=mean", "trainer.save_every=7", "prompt.denoise=shift"),
)


@pytest.fixture
def stored(config: Config, tmp_path: Path) -> tuple[RunFolder, dict[str, Any]]:
    """A run folder, and its configuration as plain values."""
    run = RunFolder(tmp_path)
    run.save_config(config(*SETTINGS))
    return run, run.settings()


GROUPS = (
    "",
    "model",
    "prompt",
    "loss",
    "data",
    "optim",
    "trainer",
    "evaluation",
    "logger.csv",
    "callbacks.ema",
)


def test_settings_that_this_version_lacks_are_one_warning(
    stored: tuple[RunFolder, dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    run, values = stored
    expected = run.load_config()
    assert not caplog.records
    cfg = OmegaConf.create(values)
    later = [f"{group}.later".removeprefix(".") for group in GROUPS]
    for key in later:
        OmegaConf.update(cfg, key, 1, force_add=True)
    OmegaConf.save(cfg, run.config_file)
    assert run.load_config() == expected
    (record,) = caplog.records
    assert set(record.getMessage().partition("lacks it: ")[2].split(", ")) == set(later)


@pytest.mark.parametrize(
    ("key", "default"),
    [
        *(("papers", None), ("precision", "auto"), ("regularizer", None)),
        *(("trainer.keep_every", None), ("trainer.save_every", 50), ("optim.betas", [0.9, 0.999])),
        *(("prompt.layer", -1), ("evaluation.aggregate", "all")),
        *((key, None) for key in ("model.layers", "loss.temperature", "data.train_size")),  # of the class
        *((key, None) for key in ("callbacks.ema.use_buffers", "logger.tensorboard.version")),
    ],
)
def test_settings_that_a_run_lacks_have_their_defaults(
    key: str, default: object, stored: tuple[RunFolder, dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    run, values = stored
    parent, _, name = key.rpartition(".")
    cfg = OmegaConf.create(values)
    del (OmegaConf.select(cfg, parent) if parent else cfg)[name]
    run.save_config(cfg)
    assert OmegaConf.select(run.load_config(), key) == default
    assert not caplog.records
    del cfg["trainer"]
    run.save_config(cfg)
    assert run.load_config().trainer.max_epochs is None


def test_settings_without_a_default(stored: tuple[RunFolder, dict[str, Any]]) -> None:
    run, values = stored
    for key in ("loss", "data", "name", "evaluation"):
        run.save_config(OmegaConf.create({name: value for name, value in values.items() if name != key}))
        with pytest.raises(CheckpointError, match=rf"is not the configuration of a run: it has no {key}\.$"):
            run.load_config()
    for group, key in (({"lr": "fast"}, r"optim\.lr"), (3, "optim")):
        run.save_config(OmegaConf.create(values | {"optim": group}))
        with pytest.raises(CheckpointError, match=rf"its {key} cannot be understood.*Correct {key} "):
            run.load_config()


def test_what_has_another_name_now(
    stored: tuple[RunFolder, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run, values = stored
    expected = run.load_config()
    target = values["loss"]["_target_"]
    monkeypatch.setattr(
        versions,
        "MIGRATIONS",
        {"optim.rate": "optim.lr", "rounding": "trainer.save_every", "sts_lightning.old.Loss": target},
    )
    values["optim"]["rate"], values["rounding"] = (
        values["optim"].pop("lr"),
        values["trainer"].pop("save_every"),
    )
    values["loss"]["_target_"] = "sts_lightning.old.Loss"
    OmegaConf.save(OmegaConf.create(values), run.config_file)
    assert run.load_config() == expected
    assert not caplog.records

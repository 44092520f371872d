"""Folders and configurations that are not those of runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from sts_lightning.core.errors import CheckpointError
from sts_lightning.runs.folder import RunFolder, missing_run_error
from sts_lightning.runs.predictions import load_predictions

EVALUATION = {"suite": "sts", "model": {}, "data_root": "data", "senteval_text": None}


def test_a_model_is_named_as_what_it_is(tmp_path: Path) -> None:
    assert missing_run_error(tmp_path, "config.yaml").hint is None
    assert str(missing_run_error(tmp_path / "none", "config.yaml")).endswith(
        "is not a run folder: it does not exist."
    )
    (tmp_path / "modules.json").touch()
    assert f"model.name={tmp_path}" in str(missing_run_error(tmp_path, "config.yaml").hint)


@pytest.mark.parametrize(
    ("cfg", "absent"),
    [
        ({"seed": 1}, "data, data_root, dev, evaluation, loss, model, name, "),
        (EVALUATION, "data, dev, evaluation, loss, name, "),
    ],
)
def test_what_is_absent_is_named(cfg: dict[str, Any], absent: str, tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.save_config(OmegaConf.create(cfg))
    with pytest.raises(CheckpointError, match=f"config.yaml is not .*: it has no {absent}"):
        run.load_config()


def test_what_was_meant_is_named(tmp_path: Path) -> None:
    for number, name in enumerate(("old", "a/new")):
        file = tmp_path / name / "config.yaml"
        file.parent.mkdir(parents=True)
        file.touch()
        os.utime(file, (number, number))
    meant = f"Did you mean {tmp_path / 'a' / 'new'}, the newest in it?"
    assert missing_run_error(tmp_path, "config.yaml").hint == meant


def test_a_folder_of_runs_has_no_results(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "config.yaml").touch()
    with pytest.raises(CheckpointError, match=r"Did you mean .*one\?"):
        RunFolder(tmp_path).metrics()
    with pytest.raises(CheckpointError, match=r"Did you mean .*one\?"):
        load_predictions(RunFolder(tmp_path))
    with pytest.raises(CheckpointError, match="it is not a finished run"):
        RunFolder(tmp_path / "one").metrics()
    with pytest.raises(CheckpointError, match="the run has no test report"):
        load_predictions(RunFolder(tmp_path / "one"))

"""A run from the run of an experiment, through the command line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

import sts_lightning
from sts_lightning.evaluation.statistics import correlate
from sts_lightning.evaluation.sts import encode_pairs
from sts_lightning.models.loading.pipeline import read_model
from sts_lightning.runs.folder import RunFolder
from sts_lightning.testing.toy import toy
from tests.support.two_runs import write_experiments

Cli = Callable[..., subprocess.CompletedProcess[str]]

SIZE = "data: {%s train_size: 32, dev_size: 20, test_size: 20, batch_size: 8}\noptim: {warmup: 0}\n"

FIRST = f"""# @package _global_
defaults: [pcc_stage1, override /data: toy]
name: first
{SIZE % "kind: triplets,"}trainer: {{max_epochs: 1, val_every: null}}
"""

BOTH = f"""# @package _global_
defaults: [pcc, override /data: toy]
name: both
init_from: experiment:first
{SIZE % ""}trainer: {{max_epochs: 2, val_every: null}}
"""

PCC = ["experiment=both", "model=tiny_mistral", "model.quantization=4bit", "trainer=cpu"]


def test_both_runs_in_one_command(cli: Cli, tmp_path: Path) -> None:
    write_experiments(tmp_path / "conf", first=FIRST, both=BOTH)
    done = cli("train.py", *PCC, "hydra.run.dir=runs/both")
    assert done.returncode == 0, done.stderr
    second = tmp_path / "runs" / "both"
    (first,) = (path for path in (tmp_path / "runs").iterdir() if path != second)
    assert f"training first first: runs/{first.name}\n" in done.stdout
    assert f"starting from first: runs/{first.name} (final, step 4): 28 weights of the encoder" in done.stdout
    assert "no checkpoint yet" not in done.stdout
    settings = RunFolder(second).settings()
    assert (settings["name"], settings["init_from"]) == ("both", f"runs/{first.name}")
    assert settings["loss"]["_target_"].endswith("PearsonLoss")
    assert RunFolder(first).settings()["model"]["quantization"] == "4bit"
    assert RunFolder(first).settings()["loss"]["_target_"].endswith("InfoNCELoss")

    assert all("lora_" in name for name in load_file(second / "model" / "adapter_model.safetensors"))

    # The second run started from the end of the first one.
    score = json.loads((second / "metrics.json").read_text())["dev_untuned"]
    encoder, _ = read_model(str(RunFolder(first).model("final")))
    encoder.set_evaluation("official", None)  # dev sentences are edited like the reported ones
    dev = toy(dev_size=20).read().dev
    expected = correlate(encode_pairs(encoder, [dev])[0], np.asarray(dev["label"]))
    assert score == pytest.approx(expected["spearman"], abs=0.05)
    assert sts_lightning.load(second).config.text_edit == "official"
    assert f"{first.name} (first)" in (second / "report.html").read_text()

    for command in ([*PCC, "hydra.run.dir=runs/both"], ["resume=runs/both"]):
        again = cli("train.py", *command)
        assert again.returncode == 0, again.stderr
        assert "runs/both has finished: dev " in again.stdout
    # Another run of the same experiment finds the first run by what it trains.
    other = cli("train.py", *PCC, "data.batch_size=16", "loss=cosent", "hydra.run.dir=runs/other")
    assert other.returncode == 0, other.stderr
    assert "training first" not in other.stdout
    assert RunFolder(tmp_path / "runs" / "other").settings()["init_from"] == f"runs/{first.name}"
    listed = cli("train.py", "-m", *PCC, "hydra.sweep.dir=runs", "seed=1,2", "--plan")
    assert "4 jobs: 1 done, 3 new" in listed.stdout

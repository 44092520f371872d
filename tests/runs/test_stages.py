"""Stages through the command line."""

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

Cli = Callable[..., subprocess.CompletedProcess[str]]

PCC = [
    "experiment=pcc",
    "model=tiny_mistral",
    "model.quantization=4bit",
    "data=toy",
    "+stages.stage1.data.kind=triplets",
    "data.train_size=32",
    "data.dev_size=20",
    "data.test_size=20",
    "data.batch_size=8",
    "trainer=cpu",
    "optim.warmup=0",
    "trainer.max_epochs=1",
    "+stages.stage2.trainer.max_epochs=2",
    "trainer.val_every=null",
    "hydra.run.dir=both",
]


def test_two_stages_in_one_command(cli: Cli, tmp_path: Path) -> None:
    done = cli("train.py", *PCC)
    assert done.returncode == 0, done.stderr
    (tmp_path / "pairs.csv").write_text("sentence1,sentence2,score\na dog,a cat,1\nx y,y x,4\na,b,2\n")
    first, second = tmp_path / "both" / "stage1", tmp_path / "both" / "stage2"
    assert RunFolder(second).load_config().trainer.max_epochs == 2
    assert RunFolder(first).load_config().trainer.max_epochs == 1
    assert RunFolder(second).load_config().init_from.endswith("both/stage1")
    assert "(final, step 4): 28 weights of the encoder" in done.stdout

    assert all("lora_" in name for name in load_file(second / "model" / "adapter_model.safetensors"))

    # Stage 2 started from the end of stage 1.
    score = json.loads((second / "metrics.json").read_text())["dev_untuned"]
    encoder, _ = read_model(str(RunFolder(first).model("final")))
    encoder.set_evaluation("official", None)  # dev sentences are edited like the reported ones
    dev = toy(dev_size=RunFolder(second).load_config().data.dev_size).read().dev
    expected = correlate(encode_pairs(encoder, [dev])[0], np.asarray(dev["label"]))
    assert score == pytest.approx(expected["spearman"], abs=0.05)

    assert sts_lightning.load(second).config.text_edit == "official"
    assert np.array_equal(
        *(sts_lightning.load(folder).encode(["a dog"]) for folder in (second, second.parent))
    )
    evaluated = cli("eval.py", "ckpt=both", "test=pairs.csv", "hydra.run.dir=scores")
    assert evaluated.returncode == 0, evaluated.stderr
    for command in (PCC, ["resume=both"]):
        again = cli("train.py", *command)
        assert again.returncode == 0, again.stderr
        assert "both has finished: dev " in again.stdout
        assert "results in both/stage2/metrics.json" in again.stdout

    # What is left of the stages is done on resumption; here all of the second one.
    scores = json.loads((second / "metrics.json").read_text())
    (second / "metrics.json").unlink()
    resumed = cli("train.py", *PCC)
    assert resumed.returncode == 0, resumed.stderr
    assert "stage stage1" not in resumed.stdout
    assert json.loads((second / "metrics.json").read_text())["dev"] == scores["dev"]

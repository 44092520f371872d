"""Stages through the command line."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import DictConfig, OmegaConf, open_dict

import sts_lightning
from sts_lightning.errors import CheckpointError, ConfigError, InterruptedRunError, RunningElsewhereError
from sts_lightning.evaluation.correlation import correlate
from sts_lightning.evaluation.sts import encode_pairs
from sts_lightning.models.loading import build_encoder
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.lock import locked
from sts_lightning.testing.toy import ToyData
from sts_lightning.training.module import STSModule
from sts_lightning.workflows.run_config import load_run_config
from sts_lightning.workflows.stages import resume_stages, run_stages
from tests.conftest import SHORT_RUN

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
    "trainer.val_every=1.0",
    "hydra.run.dir=both",
]


def test_two_stages_in_one_command(cli: Cli, tmp_path: Path) -> None:
    done = cli("train.py", *PCC)
    assert done.returncode == 0, done.stderr
    first, second = tmp_path / "both" / "stage1", tmp_path / "both" / "stage2"
    assert RunFolder(second).load_config().trainer.max_epochs == 2
    assert RunFolder(first).load_config().trainer.max_epochs == 1
    assert RunFolder(second).load_config().init_from.endswith("both/stage1")
    assert "(final, step 4): 28 weights of the encoder" in done.stdout

    # Only what trains is kept: the adapter, and nothing of the base or its quantisation.
    checkpoint = torch.load(second / "checkpoints" / "last.ckpt", weights_only=True)
    assert all("lora_" in name for name in checkpoint["state_dict"])
    assert {"optimizer_states", "lr_schedulers", "callbacks", "loops"} <= checkpoint.keys()

    # Stage 2 started from the end of stage 1.
    end = RunFolder(first).read_checkpoint("last")["state_dict"]
    score = json.loads((second / "metrics.json").read_text())["dev_untuned"]
    encoder = build_encoder(
        RunFolder(second).load_config().model, RunFolder(second).load_config().prompt
    ).eval()
    encoder.load_state_dict(
        {name.removeprefix("encoder."): value for name, value in end.items()}, strict=False
    )

    encoder.text_edit = "official"  # dev sentences are edited like the reported ones
    encoder.tokenizer.set_evaluation_length(None)
    arguments = {k: v for k, v in RunFolder(second).load_config().data.items() if k != "_target_"}
    dev = ToyData(**arguments).load_dev()
    expected = correlate(encode_pairs(encoder, [dev])[0], np.asarray(dev["label"]))
    assert score == pytest.approx(expected["spearman"], abs=0.05)

    assert sts_lightning.load(second).text_edit == "official"
    again = cli("train.py", *PCC)
    assert again.returncode == 3
    assert "both already contains a finished run" in again.stderr
    finished = cli("train.py", "resume=both")
    assert finished.returncode == 3
    assert "both has finished: its results are in both/stage2" in finished.stderr

    # What is left of the stages is done on resumption; here all of the second one.
    scores = json.loads((second / "metrics.json").read_text())
    (second / "metrics.json").unlink()
    (second / "checkpoints" / "last.ckpt").unlink()
    resumed = cli("train.py", "resume=both")
    assert resumed.returncode == 0, resumed.stderr
    assert "stage stage1" not in resumed.stdout
    assert json.loads((second / "metrics.json").read_text())["dev"] == scores["dev"]


def test_stages_are_started_again_and_resumed_as_a_whole(
    config: Callable[..., DictConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "both"
    short = [*SHORT_RUN, "logger=csv", "trainer.max_steps=2", "evaluation.final=false"]

    def stages(*more: str) -> dict[str, DictConfig]:
        return {"one": config(*short, *more), "two": config(*short, "seed=2")}

    with pytest.raises(ConfigError, match=r"trainer\.extra"):
        run_stages(RunFolder(folder), stages("+trainer.extra.no_such_option=1"))
    assert not folder.exists()

    with monkeypatch.context() as patch:  # before the first checkpoint of the first stage
        patch.setattr(STSModule, "on_validation_start", lambda _: signal.raise_signal(signal.SIGTERM))
        with pytest.raises(InterruptedRunError, match=rf"Start it again with the same command, .*={folder}$"):
            run_stages(RunFolder(folder), stages())
    with pytest.raises(ConfigError, match=r"other values of one\.data\.seed, one\.seed;"):
        run_stages(RunFolder(folder), stages("seed=5"))

    save = RunFolder.save_config

    def stop_second(run: RunFolder, cfg: DictConfig) -> None:
        save(run, cfg)
        if run.path.name == "two":
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save_config", stop_second)
        with pytest.raises(InterruptedRunError, match=rf"Resume with: .* resume={folder}$"):
            run_stages(RunFolder(folder), stages())
    with pytest.raises(ConfigError, match=rf"resume it with resume={folder},"):
        run_stages(RunFolder(folder), stages())
    first = (folder / "one" / "metrics.json").read_bytes()
    resume_stages(RunFolder(folder))
    assert (folder / "one" / "metrics.json").read_bytes() == first
    assert (folder / "two" / "metrics.json").is_file()
    with locked(folder), pytest.raises(RunningElsewhereError):
        resume_stages(RunFolder(folder))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["+stages.stage2.trainer.max_epoch=2"], "stages.stage2: Key 'max_epoch' not in 'TrainerConfig'"),
        (["+stages.stage3.seed=1"], "stages.stage3.experiment is missing"),
    ],
)
def test_a_mistake_in_a_later_stage_is_found_before_the_first(
    arguments: list[str], message: str, cli: Cli, tmp_path: Path
) -> None:
    done = cli("train.py", *PCC, *arguments)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.rglob("*")) == []


def test_published_cells(config: Callable[..., OmegaConf]) -> None:
    """Batch and epochs of Pcc-tuning's twelve cells, as its code has them, and what the command line says."""
    cfg = config("experiment=pcc_stage2", "model=llama7b", "prompt=eol")
    assert (cfg.data.batch_size, cfg.trainer.max_epochs, cfg.optim.warmup) == (192, 8, 100)
    cfg = config("experiment=pcc_stage2", "model=mistral7b", "prompt=sum")
    assert (cfg.data.batch_size, cfg.trainer.max_epochs) == (208, 8)
    assert config("experiment=pcc_stage1", "model=mistral7b", "prompt=sth").data.batch_size == 224
    assert config("experiment=pcc_stage1", "model=llama2_7b", "prompt=sum").data.batch_size == 248
    cfg = config("experiment=pcc_stage1", "model=mistral7b", "prompt=sth", "data.batch_size=32")
    assert cfg.data.batch_size == 32
    assert config("experiment=pcc_stage1", "model=tiny_opt").data.batch_size == 256


def test_a_run_of_an_earlier_version_goes_on(
    config: Callable[..., DictConfig], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its configuration lacks what has come since; what it has stands, also where it is no default."""
    full = config(*SHORT_RUN, "optim.warmup=0.3", "logger=csv", "loss=infonce", "data.kind=triplets")
    OmegaConf.resolve(full)
    old = OmegaConf.create(OmegaConf.to_container(full))
    with open_dict(full):
        full.loss.pop("temperature")  # its signature has the default
    for key in ("queue", "init", "regularizer", "stages"):
        old.pop(key)
    old.trainer.pop("micro_batch_size")
    old.prompt.pop("denoise")
    old.loss.pop("temperature")
    RunFolder(tmp_path).save_config(old)
    with caplog.at_level("INFO"):
        found = load_run_config(RunFolder(tmp_path))
    assert found == full
    assert "created: init, prompt.denoise, queue, queue.momentum, queue.size, " in caplog.text
    old.trainer.later = 1
    RunFolder(tmp_path).save_config(old)
    with pytest.raises(CheckpointError, match=r"config.yaml: trainer.later: Key 'later' not in"):
        load_run_config(RunFolder(tmp_path))

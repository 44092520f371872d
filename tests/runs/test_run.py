"""Whole runs on small models: run folder, determinism, restoring, bad luck."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.utils.deterministic
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

import sts_lightning
from sts_lightning.core.errors import CheckpointError, ConfigError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.history import read_history
from sts_lightning.workflows.command import train_in
from tests.conftest import ROOT, SHORT_RUN
from tests.support.run_entries import train_py
from tests.support.whole_runs import EPOCHS, metrics, same_results, weights

Config = Callable[..., DictConfig]


def test_run_folder_holds_everything(uninterrupted: Path) -> None:
    names = {str(path.relative_to(uninterrupted)) for path in uninterrupted.rglob("*") if path.is_file()}
    assert {
        "config.yaml",
        "metrics.json",
        "history.csv",
        "train.log",
        "model/sts_lightning.json",
        "model/model.safetensors",
        "plots/curves.png",
        "plots/dev_cosines.png",
    } <= names
    assert any(name.startswith("tensorboard/events") for name in names)
    hidden = [name for name in names if "/." in f"/{name}"]
    assert hidden == [".lock"]  # no temporary file is left
    result = metrics(uninterrupted)
    [source] = result["data"]
    assert source.items() >= {"source": "toy pairs", "read": 256, "dropped": {}, "kept": 256}.items()
    # Without the build that the wheels of the package index leave out of their metadata.
    assert torch.__version__.startswith(result["versions"]["torch"])
    assert result["steps"] == 32
    history = read_history(uninterrupted / "history.csv")
    assert [row["step"] for row in history] == list(range(33))
    assert {"train/loss", "lr", "steps_per_second", "tokens_per_second"} <= history[1].keys()
    scored = [row["step"] for row in history if "dev/spearman" in row]
    assert scored == [0, 4, 8, 12, 16, 20, 24, 28, 32]
    assert result["best_step"] == max(history, key=lambda row: row.get("dev/spearman", -1))["step"]
    assert history[0]["dev/spearman"] == result["dev_untuned"]


def test_monitored_score_equals_the_reported_one(uninterrupted: Path) -> None:
    result = metrics(uninterrupted)
    row = next(
        row for row in read_history(uninterrupted / "history.csv") if row["step"] == result["best_step"]
    )
    assert row["dev/spearman"] == pytest.approx(result["dev"]["spearman"], abs=1e-2)  # torchmetrics and scipy
    assert row["dev/pearson"] == pytest.approx(result["dev"]["pearson"], abs=1e-2)


def test_learning_rate_warms_up_and_decays_to_zero(uninterrupted: Path) -> None:
    rates = [row["lr"] for row in read_history(uninterrupted / "history.csv") if "lr" in row]
    warmup, total, peak = 3, 32, 5e-5
    expected = [
        peak * (step / warmup if step < warmup else (total - step) / (total - warmup))
        for step in range(total)
    ]
    assert rates == pytest.approx(expected, rel=1e-6)


def test_same_seed_same_numbers(uninterrupted: Path, config: Config, tmp_path: Path) -> None:
    train_in(tmp_path / "again", config(*EPOCHS))
    same_results(uninterrupted, tmp_path / "again")


def test_a_folder_with_a_run_is_not_overwritten(uninterrupted: Path, config: Config) -> None:
    before = (uninterrupted / "metrics.json").read_bytes()
    with pytest.raises(ConfigError, match=r"other values of (data\.)?seed.*hydra\.run\.dir"):
        train_in(uninterrupted, config(*EPOCHS, "name=test", "seed=2"))
    assert (uninterrupted / "metrics.json").read_bytes() == before


def test_the_same_command_prints_the_result_of_a_finished_run(
    uninterrupted: Path, config: Config, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = {path: path.stat().st_mtime_ns for path in uninterrupted.rglob("*") if path.name != ".lock"}
    score = metrics(uninterrupted)["dev"]["spearman"]
    with caplog.at_level("INFO"):
        assert train_in(uninterrupted, config(*EPOCHS, "name=test", "trainer.micro_batch_size=8")) == score
        assert train_py(tmp_path / "out", f"resume={uninterrupted}") == score
    assert caplog.text.count(f"{uninterrupted} has finished: dev {score:.2f}, toy ") == 2
    assert files == {path: path.stat().st_mtime_ns for path in uninterrupted.rglob("*") if path in files}


def test_load_restores_the_tuned_encoder(uninterrupted: Path) -> None:
    encoder = sts_lightning.load(uninterrupted)
    assert not encoder.training
    vectors = encoder.encode(["A dog.", "A cat."])
    assert vectors.shape == (2, 32)
    state = weights(uninterrupted)
    for name, value in encoder.state_dict().items():
        assert torch.equal(value, state[f"encoder.{name}"])


def test_template_pooling_and_precision_come_back(config: Config, tmp_path: Path) -> None:
    run = tmp_path / "run"
    cfg = config(*SHORT_RUN, "prompt=promptbert", "evaluation.precision=bf16-true", "trainer.max_steps=2")
    train_in(run, cfg)
    encoder = sts_lightning.load(run)
    assert encoder.config.pooling == "mask_token"
    assert encoder.tokenizer.template == 'This sentence of "{sentence}" means [MASK].'
    assert {parameter.dtype for parameter in encoder.parameters()} == {torch.bfloat16}
    assert {w.dtype for name, w in weights(run).items() if "weight" in name} == {torch.float32}


def test_checkpoint_of_another_model_is_refused(uninterrupted: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(uninterrupted, tmp_path / "run"))
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(text.replace("hidden_size: 32", "hidden_size: 16"))
    (run / "metrics.json").unlink()
    with pytest.raises(CheckpointError, match="the checkpoint does not belong to this model"):
        train_in(run, RunFolder(run).load_config(), resume=True)


def test_weights_stay_in_float32_under_mixed_precision(config: Config, tmp_path: Path) -> None:
    train_in(tmp_path / "run", config(*SHORT_RUN, "precision=bf16-mixed", "trainer.max_steps=3"))
    dtypes = {value.dtype for value in weights(tmp_path / "run").values() if value.is_floating_point()}
    assert dtypes == {torch.float32}


def no_context(*_: object) -> None:
    raise AssertionError("a run on the CPU initialised CUDA")


def test_a_run_on_the_cpu_leaves_a_card_alone(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of this package's own calls: in Python the card stays visible."""
    if torch.version.cuda is not None:  # in commands, which hide the card, it sees none
        pytest.skip("the optimiser of a build for CUDA asks the driver itself")
    importlib.import_module("peft")  # imports bitsandbytes, which would open the card
    monkeypatch.setattr(HydraConfig.instance(), "cfg", None)  # as earlier tests may have left it
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for module in (torch.cuda, torch.cuda.memory, torch.cuda.random):
        monkeypatch.setattr(module, "_lazy_init", no_context)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    train_in(tmp_path / "run", config(*SHORT_RUN, "trainer=cpu", "trainer.max_steps=4"))
    assert metrics(tmp_path / "run")["peak_memory_bytes"].keys() == {"host"}
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_a_command_on_the_cpu_hides_the_card_from_libraries(tmp_path: Path) -> None:
    """bitsandbytes asks each visible card for its kind as soon as peft is imported."""
    code = (
        "import os, runpy, sys, torch\n"
        "torch.cuda.device_count = lambda: int(os.environ.get('CUDA_VISIBLE_DEVICES') != '')\n"
        "torch.cuda.is_available = lambda: torch.cuda.device_count() > 0\n"
        "torch.cuda._lazy_init = lambda: os._exit(7)\n"
        "assert torch.cuda.is_available()\n"
        f"runpy.run_path({str(ROOT / 'train.py')!r}, run_name='__main__')"
    )
    settings = [*SHORT_RUN, "trainer=cpu", "trainer.max_steps=2", f"hydra.run.dir={tmp_path}"]
    visible = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    done = subprocess.run(
        [sys.executable, "-c", code, *settings], env=visible, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert metrics(tmp_path)["steps"] == 2

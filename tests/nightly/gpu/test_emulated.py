"""Runs of every recipe, adapter and auxiliary model on an emulated GPU, and what reads their folders."""

from __future__ import annotations

import itertools
import platform
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import Callback
from omegaconf import DictConfig

import sts_lightning
from sts_lightning.core.errors import TrainingError
from sts_lightning.evaluation.score import score_data
from sts_lightning.export.export import export
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.runs.folder import RunFolder
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.workflows import train
from sts_lightning.workflows.evaluate import evaluate_in
from sts_lightning.workflows.start import train_in
from tests.nightly.gpu.steps import decoder
from tests.runs.conftest import uninterrupted as uninterrupted
from tests.support.emulated_gpu import EmulatedGPU, emulated_gpu
from tests.support.emulated_runs import DECODER, ON_GPU, QUANTISED, TOY_RUN, Shrinking, run_emulated
from tests.support.recipes import SINGLE, losses, overrides
from tests.support.sentences import TEXTS
from tests.support.whole_runs import metrics

Config = Callable[..., DictConfig]


@pytest.mark.parametrize("experiment", SINGLE)
def test_a_recipe_trains(experiment: str, config: Config, tmp_path: Path, uninterrupted: Path) -> None:
    run_emulated(tmp_path, config(*overrides(experiment, uninterrupted), *ON_GPU))
    assert np.isfinite(losses(tmp_path)).all()
    assert metrics(tmp_path)["machine"]["accelerator"] == "gpu"


@pytest.mark.parametrize(
    "settings",
    [
        ["model=tiny_bert", "callbacks=ema", "trainer.wise_ft=[0,0.5]"],
        [
            "model=tiny_bert",
            "callbacks=rank_monitor",
            "callbacks.rank_monitor.every=2",
            "callbacks.rank_monitor.views=dropout",
            "regularizer=rank_reduction",
            "evaluation.rank=true",
        ],
        ["model=tiny_bert", "regularizer=global_orthogonal", "optim.layer_decay=0.9"],
        ["model=tiny_bert", "precision=16-mixed"],
        ["model=tiny_opt", "trainer.micro_batch_size=4", "trainer.gradient_checkpointing=true"],
    ],
)
def test_further_settings(settings: list[str], config: Config, tmp_path: Path) -> None:
    run_emulated(tmp_path, config(*TOY_RUN, *settings))
    assert np.isfinite(metrics(tmp_path)["test"]["average"])


@pytest.mark.parametrize("experiment", ["infocse", "esimcse", "ct", "rankcse"])
def test_an_auxiliary_model_takes_micro_batches(
    experiment: str, config: Config, tmp_path: Path, uninterrupted: Path
) -> None:
    settings = [*overrides(experiment, uninterrupted), *ON_GPU, "trainer.micro_batch_size=2"]
    run_emulated(tmp_path, config(*settings))
    assert np.isfinite(losses(tmp_path)).all()


def test_vectors_of_a_teacher(config: Config, tmp_path: Path, uninterrupted: Path) -> None:
    teacher = [
        "loss=vector_distillation",
        "auxiliary=teacher_vectors",
        f"auxiliary.sources=[{uninterrupted}]",
    ]
    run_emulated(tmp_path, config(*TOY_RUN, "model=tiny_bert", "data.kind=sentences", *teacher))
    assert np.isfinite(metrics(tmp_path)["test"]["average"])


def test_micro_batches_are_found_and_become_smaller_where_memory_runs_out(
    config: Config, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = [*TOY_RUN, *QUANTISED, "trainer.micro_batch_size=auto"]
    with emulated_gpu(total_memory=12 * 2**20) as gpu:
        train_in(tmp_path, config(*settings), callbacks=[Shrinking(gpu, step=3, left=2 * 2**20)])
    assert "memory ran out at step 3, which is repeated" in caplog.text
    assert metrics(tmp_path)["steps"] == 4


def test_memory_that_the_driver_would_lend_is_not_taken(
    config: Config, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under Windows and WSL no allocation fails; the step would go over the bus."""
    monkeypatch.setattr(platform, "release", lambda: "6.6.87.2-microsoft-standard-WSL2")
    with emulated_gpu(total_memory=6 * 2**20) as gpu:
        gpu.lends = True
        train_in(tmp_path, config(*TOY_RUN, *DECODER, "trainer.micro_batch_size=auto"))
        assert gpu.peak <= gpu.total_memory
    assert "memory ran out at step 1, which is repeated" in caplog.text
    assert metrics(tmp_path)["steps"] == 4


def test_attention_of_an_encoder_on_a_card_is_not_that_of_cudnn() -> None:
    enabled = torch.backends.cuda.cudnn_sdp_enabled
    with emulated_gpu():
        before = enabled()
        encoder = tiny_bert()
        assert before
        assert enabled()  # that of others in the process, as long as ours is on the host
        encoder.to("cuda")
        assert not enabled()
    with emulated_gpu():  # quantised weights are loaded there
        assert enabled()
        decoder(torch.device("cuda", 0), quantization="4bit", dtype="bfloat16")
        assert not enabled()


class NotANumber(Callback):
    """Makes the loss NaN from a step on."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_start(self, trainer: Any, module: Any, *args: Any) -> None:
        if trainer.global_step + 1 == self.step:
            module.loss.register_forward_hook(lambda loss, inputs, value: value * float("nan"))

    def on_train_batch_end(self, trainer: Any, module: Any, *args: Any) -> None:
        self.steps = trainer.global_step


@pytest.mark.parametrize("save_every", [1, 50])
def test_a_loss_that_is_not_finite_reaches_no_checkpoint(
    save_every: int, config: Config, tmp_path: Path
) -> None:
    """It is read one step later, after the weights have changed, or before they are stored."""
    settings = ["model=tiny_bert", f"trainer.save_every={save_every}", "trainer.max_epochs=2"]
    nan = NotANumber(3)
    with pytest.raises(TrainingError, match="the loss is nan at step 3; a lower"):
        run_emulated(tmp_path, config(*TOY_RUN, *settings), nan)
    assert nan.steps == 3
    stored = RunFolder(tmp_path).checkpoint("last")
    assert stored.exists() == (save_every == 1)
    if save_every == 1:
        checkpoint = RunFolder(tmp_path).read_checkpoint("last")
        assert checkpoint["global_step"] == 2
        assert all(value.isfinite().all() for value in checkpoint["state_dict"].values())


def test_the_untuned_model_is_scored_on_the_gpu(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def watched(encoder: SentenceEncoder, *rest: Any) -> object:
        seen.append(encoder.device.type)
        return score_data(encoder, *rest)

    monkeypatch.setattr(train, "score_data", watched)
    run_emulated(tmp_path, config(*TOY_RUN, *QUANTISED, "evaluation.untuned=true"))
    assert seen == ["cuda"]


def write_pairs(path: Path) -> None:
    pairs = [f"{one},{two},{number % 6}" for number, (one, two) in enumerate(itertools.pairwise(TEXTS))]
    path.write_text("\n".join(["sentence1,sentence2,score", *pairs]))


class MemoryAtStart(Callback):
    """Adds the memory in use before the first step to a list, since what holds a callback holds the model."""

    def __init__(self, gpu: EmulatedGPU, found: list[int]) -> None:
        self.gpu, self.found = gpu, found

    def on_train_start(self, trainer: Any, module: Any) -> None:
        self.found.append(self.gpu.used)


def test_a_run_starts_from_another_and_is_read_on_the_gpu(config: Config, tmp_path: Path) -> None:
    settings = [*TOY_RUN, *DECODER]
    run_emulated(tmp_path / "first", config(*settings))
    run_emulated(tmp_path / "second", config(*settings, f"init_from={tmp_path / 'first'}"))
    expected = sts_lightning.load(tmp_path / "second").encode(TEXTS)
    with emulated_gpu():
        encoder = sts_lightning.load(tmp_path / "second").to("cuda")
        np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-5)
        assert all(parameter.is_cuda for parameter in encoder.parameters())
        np.testing.assert_allclose(encoder.to("cpu").encode(TEXTS), expected, atol=1e-5)
    write_pairs(tmp_path / "own.csv")
    scores = {}
    for accelerator in ("cpu", "gpu"):
        settings = [
            f"ckpt={tmp_path / 'second'}",
            f"test={tmp_path / 'own.csv'}",
            f"accelerator={accelerator}",
        ]
        with emulated_gpu():
            scores[accelerator] = evaluate_in(tmp_path / accelerator, config(*settings, of="eval"))
    assert scores["gpu"] == pytest.approx(scores["cpu"], abs=0.1)


def test_a_quantised_run_starts_from_another_and_is_read_and_exported(config: Config, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    used: list[int] = []
    with emulated_gpu() as gpu:
        train_in(first, config(*TOY_RUN, *QUANTISED), callbacks=[MemoryAtStart(gpu, used)])
        settings = [*TOY_RUN, *QUANTISED, f"init_from={first}"]
        train_in(second, config(*settings), callbacks=[MemoryAtStart(gpu, used)])
        assert used[1] == used[0]
        encoder = sts_lightning.load(second)
        assert encoder.device.type == "cuda"
        vectors = encoder.encode(TEXTS)
        write_pairs(tmp_path / "own.csv")
        settings = [f"ckpt={second}", f"test={tmp_path / 'own.csv'}"]
        scores = [
            evaluate_in(tmp_path / place, config(*settings, f"accelerator={place}", of="eval"))
            for place in ("cpu", "gpu")
        ]
        export(second, tmp_path / "merged", "merged")
        export(second, tmp_path / "adapter", "adapter")
    np.testing.assert_allclose(sts_lightning.load(second).encode(TEXTS), vectors, atol=1e-5)
    assert scores[1] == pytest.approx(scores[0], abs=0.1)
    for folder in ("merged", "adapter"):
        np.testing.assert_allclose(sts_lightning.load(tmp_path / folder).encode(TEXTS), vectors, atol=1e-5)


def test_the_last_micro_batch_is_kept_in_the_memory_of_one() -> None:
    """The backward pass begins with it; the gradient is the same to the bit, dropout included."""
    with emulated_gpu() as gpu:
        encoder = decoder(torch.device("cuda", 0))
        batch = encoder.prepare(10_000, training=True, launch=1)([TEXTS * 4], [None])
        batch = batch.limited(most_tokens=batch.padded_tokens // 3)
        chunks = [{name: ids.to("cuda") for name, ids in chunk.items()} for chunk in batch.chunks]
        found = {}
        for kept in (0, batch.last_within(None, batch.padded_tokens // 3), len(chunks)):
            encoder.zero_grad()
            torch.manual_seed(2)
            gpu.reset_peak()
            encoder(replace(batch, chunks=chunks), kept).square().sum().backward()
            gradients = [
                weight.grad.flatten().cpu() for weight in encoder.parameters() if weight.grad is not None
            ]
            found[kept] = gpu.peak, torch.cat(gradients)
    (none, recomputed), (one, kept_last), (all_of_them, expected) = found.values()
    assert torch.equal(recomputed, expected)
    assert torch.equal(kept_last, expected)
    assert one <= 1.1 * none < all_of_them

"""Whole runs on an emulated GPU."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import Callback
from omegaconf import DictConfig

from sts_lightning.workflows.start import train_in
from tests.support.emulated_gpu import EmulatedGPU, emulated_gpu

SYNCHRONISATIONS = 2
"""What a step that is not logged may wait for: the loss of the step before, and one thing more."""

ON_GPU = ["trainer=gpu", "precision=auto", "optim.warmup=0"]

TOY_RUN = [
    *ON_GPU,
    "data=toy",
    "data.train_size=64",
    "data.dev_size=24",
    "data.test_size=8",
    "data.batch_size=16",
    "trainer.max_epochs=1",
    "trainer.val_every=4",
    "trainer.log_every_n_steps=50",
]
"""Four steps, of which the last is logged and followed by a dev evaluation."""

DECODER = ["model=tiny_mistral", "prompt=eol"]

QUANTISED = [*DECODER, "model.quantization=4bit"]


class ThirdStep(Callback):
    """Records what the host waits for from the start of the third step to the start of the fourth."""

    def __init__(self, gpu: EmulatedGPU) -> None:
        self.gpu = gpu

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, batch_idx: int) -> None:
        assert module.device.type == "cuda"
        self.gpu.recording = trainer.global_step == 2


class Shrinking(Callback):
    """Leaves so many bytes of memory from a step on."""

    def __init__(self, gpu: EmulatedGPU, step: int, left: int) -> None:
        self.gpu, self.step, self.left = gpu, step, left

    def on_train_batch_start(self, trainer: Any, *args: Any) -> None:
        if trainer.global_step + 1 == self.step:
            self.gpu.total_memory = self.gpu.used + self.left


def run_emulated(run: Path, cfg: DictConfig, *callbacks: Callback, resume: bool = False) -> Counter[str]:
    """Train on an emulated GPU; return what the third step waited for, by line."""
    with emulated_gpu() as gpu:
        train_in(run, cfg, callbacks=[ThirdStep(gpu), *callbacks], resume=resume)
    return Counter(gpu.synchronisations)


def check_synchronisations(found: Counter[str]) -> None:
    """Fail with the lines if a step waits too often."""
    lines = "\n".join(f"{count:4} {line}" for line, count in found.most_common())
    assert found.total() <= SYNCHRONISATIONS, f"{found.total()} synchronisations in a step:\n{lines}"

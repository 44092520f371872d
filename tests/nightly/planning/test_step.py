"""Planned bytes of a step against the allocations of a real one, counted by PyTorch's profiler."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from omegaconf import DictConfig
from profiled import StepPeaks
from transformers import MistralConfig

from sts_lightning.config.check import check_config
from sts_lightning.config.machine import decide
from sts_lightning.planning.estimate import draw
from sts_lightning.planning.trace_step import trace_step
from sts_lightning.runs.folder import RunFolder
from sts_lightning.testing.tiny_decoders import write_mistral
from sts_lightning.workflows.build import build_experiment
from sts_lightning.workflows.checks import validate

SHORT = [
    "data=toy",
    "data.train_size=48",
    "data.dev_size=20",
    "data.test_size=20",
    "data.batch_size=16",
    "trainer=cpu",
    "trainer.max_steps=3",
    "trainer.val_every=1000",
    "logger={}",
]

CASES = {
    "plain": ["model=tiny_bert", "loss=infonce", "data.kind=triplets"],
    "head and micro batches": [
        "model=tiny_bert",
        "loss=smooth_k2",
        "data.kind=classes",
        "trainer.micro_batch_size=4",
    ],
    "LoRA on 4 bit, mixed precision": [
        "model=tiny_mistral",
        "prompt=eol",
        "loss=pearson",
        "model.quantization=4bit",
        "precision=bf16-mixed",
    ],
    "LoRA, checkpointing": [
        "model=tiny_opt",
        "model.hidden_size=256",  # the states of the random generator, 5 KB each, are not planned
        "prompt=eol",
        "loss=cosent",
        "trainer.gradient_checkpointing=true",
    ],
    "second encoder": ["model=tiny_bert", "experiment=ct", "data.kind=sentences", "data.views=1"],
    "second encoder in micro batches": [
        "model=tiny_bert",
        "experiment=ct",
        "data.kind=sentences",
        "data.views=1",
        "trainer.micro_batch_size=4",
    ],
    "masked language model": [
        "model=tiny_bert",
        "experiment=infocse",
        "data.kind=sentences",
        "auxiliary.lower_layers=1",
        "auxiliary.layers=1",
    ],
    "queue of negatives": [
        "model=tiny_bert",
        "loss=infonce",
        "data.kind=sentences",
        "auxiliary=momentum_queue",
        "auxiliary.size=32",
    ],
}


def trained_peak(cfg: DictConfig, folder: Path) -> int:
    """Peak of the steps after the first."""
    watch = StepPeaks()
    parts = validate(RunFolder(folder / "run"), check_config(cfg), [watch])
    with watch.watching():
        experiment = build_experiment(parts, "")
        experiment.module.train()
        experiment.trainer.fit(experiment.module, parts.data)
    assert len(watch.bytes) == 3
    return max(watch.bytes[1:])


def planned_peak(cfg: DictConfig) -> int:
    cfg, machine = check_config(cfg), decide(cfg)
    micro = cfg.trainer.micro_batch_size
    sheet = draw(cfg, machine.precision, micro)
    data, encoder = sheet.data, sheet.module.encoder
    data.setup()
    data.connect(encoder.prepare(machine.chunk_tokens, True), encoder.prepare(machine.chunk_tokens, False))
    peaks = []
    for batch in list(islice(data.train_dataloader(), 3))[1:]:
        module = draw(cfg, machine.precision, micro).module
        peaks.append(trace_step(module, batch, machine.precision, False, 1.0).peak.total())
    return max(peaks)


@pytest.mark.parametrize("overrides", CASES.values(), ids=CASES.keys())
def test_planned_bytes_are_those_of_a_real_step(
    config: Callable[..., DictConfig], tmp_path: Path, overrides: list[str]
) -> None:
    cfg = config(*SHORT, *overrides)
    assert planned_peak(cfg) == pytest.approx(trained_peak(cfg, tmp_path), rel=0.05)


def test_attention_in_steps_keeps_its_weights(config: Callable[..., DictConfig], tmp_path: Path) -> None:
    shape = {"vocab_size": 259, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
    write_mistral(tmp_path / "model", MistralConfig(**shape, num_attention_heads=4, num_key_value_heads=4))
    usual = [*SHORT, "model=decoder", f"model.name={tmp_path / 'model'}", "model.quantization=none"]
    usual += ["model.dtype=float32", "precision=32-true", "loss=pearson"]
    planned = {}
    for attention in ("eager", "sdpa"):
        cfg = config(*usual, f"+model.config.attn_implementation={attention}")
        planned[attention] = planned_peak(cfg)
        assert planned[attention] == pytest.approx(trained_peak(cfg, tmp_path / attention), rel=0.05)
    assert planned["eager"] > 1.1 * planned["sdpa"]
    assert planned["sdpa"] == planned_peak(config(*usual))

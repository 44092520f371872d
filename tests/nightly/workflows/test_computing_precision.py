"""The precision in which a run computes on a machine that multiplies its weights slowly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from omegaconf import DictConfig

from sts_lightning.models.loading.run import load
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.evaluate import load_evaluated
from sts_lightning.workflows.start import train_in

Config = Callable[..., DictConfig]


def multiplies_bfloat16(patch: pytest.MonkeyPatch, does: bool) -> None:
    patch.setattr(torch.cuda, "is_available", lambda: False)
    patch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    patch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: does)


@pytest.mark.parametrize("quantization", ["none", "4bit"])
def test_a_run_in_bfloat16_computes_in_float32_where_that_is_faster(
    quantization: str, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    multiplies_bfloat16(monkeypatch, True)
    short = ("precision=bf16-mixed", "evaluation.final=false", "trainer.max_steps=1", "optim.warmup=0")
    model = ("model=tiny_llama", "model.dtype=auto", f"model.quantization={quantization}")
    train_in(tmp_path, config("data=toy", *short, *model))
    assert RunFolder(tmp_path).load_config().model.dtype == "bfloat16"
    rounded = load(tmp_path)
    assert rounded.precision == "bf16-true"
    multiplies_bfloat16(monkeypatch, False)
    evaluated = config(f"ckpt={tmp_path}", of="eval")
    for encoder in (load(tmp_path), load_evaluated(evaluated, "cpu")):
        assert encoder.precision == "32-true"
        layers = [m for m in encoder.modules() if hasattr(m, "compute_dtype")]
        assert len(layers) == (14 if quantization == "4bit" else 0)
        assert all(layer.compute_dtype == torch.float32 for layer in layers)
        for weight, expected in zip(encoder.parameters(), rounded.parameters(), strict=True):
            assert torch.equal(weight, expected.to(weight.dtype))  # as they were trained on

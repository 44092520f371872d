"""The device of an evaluation."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from omegaconf import DictConfig

from sts_lightning.core.errors import ConfigError
from sts_lightning.core.hardware import resolve_machine
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.run import build_encoder
from sts_lightning.sweep.gpu_pool import demand_of
from sts_lightning.workflows.evaluate import encoding_device, load_evaluated, use_fastest_precision

Config = Callable[..., DictConfig]


def _see(patch: pytest.MonkeyPatch, cuda: int, apple: bool = False) -> None:
    patch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
    patch.setattr(torch.cuda, "device_count", lambda: cuda)
    patch.setattr(torch.backends.mps, "is_available", lambda: apple)


@pytest.mark.parametrize(
    ("accelerator", "visible", "expected"),
    [("auto", 0, "cpu"), ("cpu", 4, "cpu"), ("auto", 4, "cuda:0"), ("gpu", 1, "cuda:0")],
)
def test_device(accelerator: str, visible: int, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _see(monkeypatch, visible)
    assert encoding_device(accelerator) == expected


def test_a_device_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    _see(monkeypatch, 0)
    with pytest.raises(ConfigError, match="no CUDA device is visible") as caught:
        encoding_device("gpu")
    assert caught.value.key == "accelerator"


def test_an_apple_gpu_is_used_as_in_training(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    _see(monkeypatch, 0, apple=True)
    assert resolve_machine(config("trainer=auto")).accelerator == "mps"
    assert [encoding_device(name) for name in ("auto", "mps", "cpu")] == ["mps", "mps", "cpu"]
    assert demand_of(config("accelerator=mps", of="eval")).gpus == 0
    monkeypatch.setattr(SentenceEncoder, "device", torch.device("mps"))
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)  # of no use to it
    encoder = build_encoder(config("model=tiny_bert").model, config("model=tiny_bert").prompt)
    assert use_fastest_precision(encoder).precision == "32-true"
    _see(monkeypatch, 2, apple=True)
    assert encoding_device("auto") == "cuda:0"
    _see(monkeypatch, 0)
    with pytest.raises(ConfigError, match="accelerator=mps, but PyTorch finds no Apple GPU"):
        encoding_device("mps")


@pytest.mark.parametrize(
    ("device", "instructions", "capability", "precision"),
    [
        ("cpu", "", (0, 0), "32-true"),
        ("cpu", "_is_avx512_bf16_supported", (0, 0), "bf16-true"),
        ("cuda", "", (9, 0), "bf16-true"),
        ("cuda", "", (7, 5), "32-true"),
    ],
)
def test_the_fastest_precision_of_a_device(
    device: str,
    instructions: str,
    capability: tuple[int, int],
    precision: str,
    config: Config,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoder = build_encoder(config("model=tiny_bert").model, config("model=tiny_bert").prompt)
    for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda name=name: name == instructions)
    monkeypatch.setattr(SentenceEncoder, "device", torch.device(device))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert use_fastest_precision(encoder).precision == precision


def _cpu(patch: pytest.MonkeyPatch, bfloat16: bool) -> None:
    _see(patch, 0)
    patch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    patch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: bfloat16)


@pytest.mark.parametrize(
    ("overrides", "bfloat16", "dtype"),
    [
        ([], True, torch.bfloat16),
        ([], False, torch.float32),
        (["precision=auto"], False, torch.float32),
        (["precision=16-true"], True, torch.float16),
        (["model.dtype=bfloat16"], False, torch.bfloat16),  # typed
    ],
)
def test_the_machine_decides_the_dtype_of_a_decoder(
    overrides: list[str], bfloat16: bool, dtype: torch.dtype, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    _cpu(monkeypatch, bfloat16)
    cfg = config("model=tiny_llama", "model.dtype=auto", *overrides, of="eval")
    assert load_evaluated(cfg, "cpu").backbone.dtype == dtype


def test_float32_is_not_rounded_on_the_way(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    _cpu(monkeypatch, True)
    chosen = ("model=tiny_llama", "precision=32-true")
    ours = load_evaluated(config(*chosen, "model.dtype=auto", of="eval"), "cpu")
    exact = load_evaluated(config(*chosen, "model.dtype=float32", of="eval"), "cpu")
    for weight, expected in zip(ours.parameters(), exact.parameters(), strict=True):
        assert torch.equal(weight, expected)

"""What the machine decides, with stand-ins for the hardware."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import torch
from omegaconf import DictConfig

from sts_lightning.core import hardware as machine
from sts_lightning.core.errors import ConfigError
from sts_lightning.core.hardware import (
    allow_nondeterminism,
    resolve_machine,
    set_cublas_workspace,
    weights_device,
    with_machine,
)

Config = Callable[..., DictConfig]
AUTO = "precision=auto"


def cuda(monkeypatch: pytest.MonkeyPatch, count: int, capability: tuple[int, int] = (9, 0)) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "stand-in")


def cpu(monkeypatch: pytest.MonkeyPatch, bfloat16: bool, tiles: bool = False) -> None:
    cuda(monkeypatch, 0)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(machine, "cpu_multiplies_bfloat16", lambda: bfloat16)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: tiles)


@pytest.mark.parametrize(
    ("capability", "precision"), [((9, 0), "bf16-mixed"), ((8, 0), "bf16-mixed"), ((7, 5), "32-true")]
)
def test_a_cuda_device_is_used(
    capability: tuple[int, int], precision: str, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda(monkeypatch, 8, capability)
    found = resolve_machine(config(AUTO))
    assert (found.accelerator, found.devices, found.precision) == ("gpu", 1, precision)
    assert (found.chunk_tokens, found.deterministic) == (16384, True)
    assert found.reasons[0] == "1 of 8 CUDA devices, stand-in"


@pytest.mark.parametrize(("bfloat16", "precision"), [(True, "bf16-mixed"), (False, "32-true")])
def test_a_cpu_otherwise(
    bfloat16: bool, precision: str, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu(monkeypatch, bfloat16)
    found = resolve_machine(config(AUTO))
    assert (found.accelerator, found.precision) == ("cpu", precision)
    assert (found.chunk_tokens, found.deterministic) == (512, True)


@pytest.mark.parametrize(("precision", "tokens"), [("bf16-mixed", 1536), ("32-true", 512)])
def test_chunks_are_larger_where_tiles_multiply(
    precision: str, tokens: int, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu(monkeypatch, bfloat16=True, tiles=True)
    assert resolve_machine(config(f"precision={precision}")).chunk_tokens == tokens


@pytest.mark.parametrize(
    ("overrides", "bfloat16", "dtype"),
    [
        ([], True, "bfloat16"),
        ([], False, "float32"),
        (["precision=32-true"], True, "float32"),
        (["model.dtype=float16"], True, "float16"),
        (["model.adapter=null"], True, "float32"),  # weights that train
        (["model.adapter=null", "optim.freeze=encoder"], True, "bfloat16"),
    ],
)
def test_frozen_weights_of_a_decoder_have_the_dtype_of_the_precision(
    overrides: list[str], bfloat16: bool, dtype: str, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu(monkeypatch, bfloat16)
    cfg = config(AUTO, "model=smollm2_135m", *overrides)
    found = resolve_machine(cfg)
    assert with_machine(cfg, found).model.dtype == dtype
    assert any(f"weights in {dtype}" in reason for reason in found.reasons) == (dtype != "float16")


def test_an_apple_gpu(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu(monkeypatch, bfloat16=True)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    found = resolve_machine(config(AUTO))
    assert (found.accelerator, found.precision, found.deterministic) == ("mps", "32-true", "warn")


def test_what_was_given_is_kept(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda(monkeypatch, 2)
    given = ["trainer=cpu", "precision=32-true", "trainer.chunk_tokens=64", "trainer.deterministic=false"]
    found = resolve_machine(config(*given))
    assert (found.accelerator, found.precision, found.chunk_tokens) == ("cpu", "32-true", 64)
    assert found.deterministic is False
    assert found.reasons == ()
    assert weights_device(found) == "cpu"  # also where a GPU is visible


def test_the_front_page_on_a_gpu(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda(monkeypatch, 8)
    cfg = config(AUTO, "model=mistral7b", "loss=pearson")
    found = resolve_machine(cfg)
    assert (found.accelerator, found.precision) == ("gpu", "bf16-mixed")
    assert cfg.prompt.template == 'This sentence : "{sentence}" means in one word:"'
    assert (cfg.data.batch_size, cfg.trainer.max_epochs, cfg.optim.lr) == (216, 8, 5e-4)
    assert cfg.trainer.micro_batch_size == "auto"
    first = config("model=mistral7b", "loss=infonce", "data=nli_triplets", "prompt=sum")
    assert (first.data.batch_size, first.trainer.max_epochs) == (240, 1)
    assert config("model=mistral7b", "prompt=none").prompt.template is None


def test_a_7b_model_on_a_cpu_is_rejected(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu(monkeypatch, bfloat16=True)
    with pytest.raises(ConfigError, match=r"model=tiny_mistral, or insist with trainer=cpu"):
        resolve_machine(config("model=mistral7b"))
    with pytest.raises(ConfigError, match="model=tiny_mistral"):
        resolve_machine(config("experiment=pcc_stage2"))
    assert resolve_machine(config("model=mistral7b", "trainer=cpu")).accelerator == "cpu"
    assert resolve_machine(config("experiment=pcc_stage1", "model=tiny_mistral")).accelerator == "cpu"


def test_a_gpu_that_is_not_there(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu(monkeypatch, bfloat16=False)
    for name in ("gpu", "mps"):
        with pytest.raises(ConfigError, match=rf"trainer\.accelerator={name}"):
            resolve_machine(config(f"trainer.accelerator={name}"))


def test_a_run_stores_the_decision(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu(monkeypatch, bfloat16=True)
    cfg = config(AUTO)
    stored = with_machine(cfg, resolve_machine(cfg))
    assert (stored.precision, stored.trainer.chunk_tokens) == ("bf16-mixed", 512)
    assert stored.trainer.deterministic is True
    assert stored.trainer.accelerator == "auto"
    assert cfg.precision == "auto"


def test_the_workspace_of_a_deterministic_run_is_fixed_before_the_model_is_loaded(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda(monkeypatch, 1)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    set_cublas_workspace(resolve_machine(config("trainer=cpu")))
    set_cublas_workspace(resolve_machine(config("trainer.deterministic=false")))
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    set_cublas_workspace(resolve_machine(config()))
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")


def test_a_model_without_deterministic_form_is_trained_all_the_same(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda(monkeypatch, 1)
    cfg = config()
    found = allow_nondeterminism(resolve_machine(cfg), cfg.trainer, "mixtral")
    assert found.deterministic == "warn"
    assert "deterministic=true" not in found.reasons
    assert "mixtral" in " ".join(found.reasons)
    for given in (config("trainer.deterministic=true"), config("trainer=cpu")):
        assert allow_nondeterminism(resolve_machine(given), given.trainer, "mixtral") == resolve_machine(
            given
        )


def test_quantised_weights_go_to_the_card_of_the_process(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda(monkeypatch, 8)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    monkeypatch.setenv("SLURM_LOCALID", "3")
    assert weights_device(resolve_machine(config())) == "cuda:3"
    cuda(monkeypatch, 1)
    assert weights_device(resolve_machine(config())) == "cuda:0"


def test_a_card_that_torch_does_not_see_is_no_quiet_cpu(
    config: Config, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cpu(monkeypatch, bfloat16=False)
    monkeypatch.setattr(machine, "hidden_gpu", lambda: "the driver is too old.")
    assert [resolve_machine(config()).accelerator for _ in range(2)] == ["cpu", "cpu"]
    assert [record.getMessage() for record in caplog.records] == ["WARNING: the driver is too old."]
    with pytest.raises(ConfigError, match=r"no CUDA device is visible\. the driver is too old\."):
        resolve_machine(config("trainer.accelerator=gpu"))
    resolve_machine(config("trainer=cpu"))
    assert len(caplog.records) == 1

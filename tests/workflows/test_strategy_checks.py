"""Settings that need all weights in one process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

from sts_lightning.errors import ConfigError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows import strategy_checks
from sts_lightning.workflows.validate import build_parts

Config = Callable[..., DictConfig]

FSDP = (
    "model=tiny_mistral",
    "data=toy",
    "name=run",
    "trainer=cpu",
    "trainer.strategy=fsdp",
    "precision=32-true",
)

REJECTED = {
    "precision": ("precision=16-mixed",),
    "trainer.micro_batch_size": ("trainer.micro_batch_size=auto",),
    "model.quantization": (
        "model.quantization=8bit",
        "+model.adapter={_target_: peft.LoraConfig, task_type: FEATURE_EXTRACTION}",
    ),
    "evaluation.precision": ("evaluation.precision=bf16-true",),
    "callbacks.ema": ("callbacks=ema",),
    "trainer.wise_ft": ("trainer.wise_ft=[0.5]", "model.adapter=null"),
}


@pytest.mark.slow
@pytest.mark.parametrize("key", REJECTED)
def test_rejected_for_several_processes_alone(key: str, config: Config, tmp_path: Path) -> None:
    build_parts(RunFolder(tmp_path), config(*FSDP, *REJECTED[key]))
    with pytest.raises(ConfigError, match=r"trainer\.strategy=fsdp does not go with") as error:
        build_parts(RunFolder(tmp_path), config(*FSDP, *REJECTED[key], "trainer.devices=2"))
    assert error.value.key == key


@pytest.mark.slow
def test_4bit_weights_need_a_version_of_pytorch(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cfg = config(
        *FSDP,
        "trainer.devices=2",
        "model.quantization=4bit",
        "+model.adapter={_target_: peft.LoraConfig, task_type: FEATURE_EXTRACTION}",
        "evaluation.precision=32-true",
    )
    build_parts(RunFolder(tmp_path), cfg)
    monkeypatch.setattr(strategy_checks.torch, "__version__", "2.8.0+cpu")
    with pytest.raises(ConfigError, match=r"needs PyTorch 2\.13 here, and this is 2\.8\.0") as error:
        build_parts(RunFolder(tmp_path), cfg)
    assert error.value.key == "model.quantization"

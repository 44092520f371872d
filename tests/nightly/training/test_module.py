"""Micro batches give the gradient of the whole batch, dropout included."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import DictConfig
from peft import LoraConfig

from sts_lightning.core.errors import TrainingError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.testing.tiny_decoders import tiny_mistral, tiny_opt
from sts_lightning.workflows.command import train_in
from tests.conftest import SHORT_RUN
from tests.support.whole_runs import metrics, weights
from tests.unit.training.test_micro_batch import limit_memory
from tests.unit.training.test_module import gradient


def adapter() -> LoraConfig:
    return LoraConfig(task_type="FEATURE_EXTRACTION", r=4, lora_dropout=0.2, target_modules="all-linear")


def kinds() -> dict[str, Callable[[], SentenceEncoder]]:
    lora: Any = {"pooling": "last_token", "adapter": adapter()}
    return {
        "bert": tiny_bert,
        "opt": lambda: tiny_opt(**lora),
        "4bit": lambda: tiny_mistral(quantization="4bit", **lora),
        "8bit": lambda: tiny_mistral(quantization="8bit", **lora),
        "4bit bf16": lambda: tiny_mistral(quantization="4bit", dtype="bfloat16", **lora),
    }


@pytest.mark.parametrize("kind", list(kinds()))
@pytest.mark.parametrize("checkpoint_layers", [False, True])
def test_draws_the_same_dropout_again(
    kind: str, checkpoint_layers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same chunks with and without recomputation: the same masks, the same gradient to the last bit."""
    encoder = kinds()[kind]()
    for name, parameter in encoder.named_parameters():
        if "lora_B" in name:  # zero at first, which would hide the gradient of A
            torch.nn.init.normal_(parameter, std=0.1)
    if checkpoint_layers:
        encoder.checkpoint_layers()
    autocast = torch.bfloat16 if "bf16" in kind else None
    cached, _ = gradient(encoder, "infonce", 2, autocast=autocast)
    forward = encoder.forward
    monkeypatch.setattr(encoder, "forward", lambda rows, recompute=False: forward(rows))
    kept, _ = gradient(encoder, "infonce", 2, autocast=autocast)
    assert torch.equal(cached, kept)
    monkeypatch.undo()
    other, _ = gradient(encoder, "infonce", 4, autocast=autocast)
    assert not torch.equal(cached, other)  # other chunks draw other masks


def test_a_run_with_micro_batches_ends_where_one_without_ends(
    config: Callable[..., DictConfig], tmp_path: Path
) -> None:
    settings = [*SHORT_RUN, "model.dropout=0", "data.batch_size=16", "trainer.max_epochs=1", "logger=csv"]
    train_in(tmp_path / "whole", config(*settings))
    train_in(tmp_path / "micro", config(*settings, "trainer.micro_batch_size=6"))  # 6, 6 and 4
    assert metrics(tmp_path / "micro")["dev"]["spearman"] == pytest.approx(
        metrics(tmp_path / "whole")["dev"]["spearman"], abs=0.05
    )
    for name, value in weights(tmp_path / "whole").items():
        torch.testing.assert_close(weights(tmp_path / "micro")[name], value, atol=2e-5, rtol=1e-3)


def test_auto_in_a_run_leaves_the_result_as_it_is(
    config: Callable[..., DictConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = [*SHORT_RUN, "model.dropout=0", "data.batch_size=16", "trainer.max_epochs=1", "logger=csv"]
    train_in(tmp_path / "whole", config(*settings))
    limit_memory(monkeypatch, SentenceEncoder, rows=13)
    train_in(tmp_path / "auto", config(*settings, "trainer.micro_batch_size=auto"))
    assert metrics(tmp_path / "auto")["micro_batch_size"] == 4
    for name, value in weights(tmp_path / "whole").items():
        torch.testing.assert_close(weights(tmp_path / "auto")[name], value, atol=2e-5, rtol=1e-3)


def test_out_of_memory_names_the_setting(
    config: Callable[..., DictConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_memory(monkeypatch, SentenceEncoder, rows=3)
    cfg = config(*SHORT_RUN, "data.batch_size=16", "trainer.max_epochs=1", "logger=csv")
    with pytest.raises(TrainingError, match=r"memory ran out at step 1\. trainer\.micro_batch_size=16"):
        train_in(tmp_path / "run", cfg)

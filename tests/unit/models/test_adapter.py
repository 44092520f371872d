"""peft adapters around a backbone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from peft import (
    AdaLoraConfig,
    LoraConfig,
    PeftConfig,
    PrefixTuningConfig,
    PromptTuningConfig,
)

from sts_lightning.core.errors import ConfigError
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.testing.tiny_decoders import tiny_mistral, tiny_opt
from tests.support.decoders import lora


def test_an_adapter_that_does_not_fit() -> None:
    wrong = LoraConfig(task_type="FEATURE_EXTRACTION", target_modules=["query"])
    with pytest.raises(ValueError, match=r"adapter does not fit MistralModel"):
        tiny_mistral(adapter=wrong)


@pytest.mark.parametrize(
    ("adapter", "key"),
    [
        (PromptTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=4), ""),
        (AdaLoraConfig(task_type="FEATURE_EXTRACTION", total_step=10, target_modules=["query"]), ""),
        (lora(init_lora_weights="pissa"), ".init_lora_weights"),
        (lora(layer_replication=[[0, 2], [1, 2]]), ".layer_replication"),
    ],
)
def test_an_adapter_that_is_not_on_the_list(adapter: PeftConfig, key: str) -> None:
    with pytest.raises(ConfigError, match=r"^model\.adapter takes peft\.LoraConfig .*, not ") as caught:
        tiny_mistral(adapter=adapter)
    assert caught.value.key == f"model.adapter{key}"


def test_an_adapters_configuration_serves_more_than_one_model() -> None:
    shared = lora()
    tiny_opt(adapter=shared)
    tiny_mistral(adapter=shared)


@pytest.mark.parametrize("projection", [False, True])
def test_a_prefix_starts_at_the_scale_of_the_embeddings(projection: bool) -> None:
    settings = PrefixTuningConfig(
        task_type="FEATURE_EXTRACTION", num_virtual_tokens=200, prefix_projection=projection
    )
    encoder = tiny_bert(adapter=settings)
    named = encoder.backbone.named_parameters()
    (prefix,) = (value for name, value in named if name.endswith("prompt_encoder.default.embedding.weight"))
    scale = 1.0 if projection else encoder.plain_backbone.config.initializer_range
    assert prefix.std().item() == pytest.approx(scale, rel=0.05)
    assert prefix.requires_grad


def test_a_prefix_is_dropped_in_training_row_by_row() -> None:
    adapter = PrefixTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=50)
    encoder: Any = tiny_bert(dropout=0.25, adapter=adapter)

    def keys(mode: bool) -> torch.Tensor:
        return encoder.train(mode).backbone.get_prompt(4).layers[0].keys

    dropped = keys(True) == 0
    assert dropped.float().mean().item() == pytest.approx(0.25, abs=0.02)
    assert not torch.equal(dropped[0], dropped[1])
    assert not (keys(False) == 0).any()
    whole, scaled = keys(False), keys(True)
    kept = scaled != 0
    torch.testing.assert_close(scaled[kept], whole[kept] / 0.75)

"""peft adapters around a backbone."""

from __future__ import annotations

import pytest
from peft import LoraConfig

from sts_lightning.testing.tiny_decoders import tiny_mistral, tiny_opt
from tests.models.decoders import lora


def test_an_adapter_that_does_not_fit() -> None:
    wrong = LoraConfig(task_type="FEATURE_EXTRACTION", target_modules=["query"])
    with pytest.raises(ValueError, match=r"adapter does not fit MistralModel"):
        tiny_mistral(adapter=wrong)


def test_an_adapters_configuration_serves_more_than_one_model() -> None:
    shared = lora()
    tiny_opt(adapter=shared)
    tiny_mistral(adapter=shared)

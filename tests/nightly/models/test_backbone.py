"""Loading of backbones and tokenizers from folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bitsandbytes.nn import Linear4bit
from hydra.utils import instantiate
from transformers import (
    AutoModelForCausalLM,
)

from sts_lightning.testing.tiny_decoders import tiny_llama, tiny_mistral, tiny_opt
from tests.support.decoders import SENTENCES, TEMPLATE


@pytest.mark.parametrize("choice", ["opt6_7b", "llama7b", "llama2_7b", "mistral7b", "llama3_8b", "decoder"])
def test_a_configuration_of_a_decoder_loads_a_small_model_of_its_class(
    choice: str, config: Callable[..., Any], tmp_path: Path
) -> None:
    """The whole file but the name, through the same loader; the folder has a language model with head."""
    family = tiny_opt if choice == "opt6_7b" else tiny_mistral if choice == "mistral7b" else tiny_llama
    small = family()
    model = AutoModelForCausalLM.from_config(small.backbone.config)
    model.save_pretrained(tmp_path)
    small.tokenizer.tokenizer.save_pretrained(tmp_path)
    cfg = config(f"model={choice}", f"model.name={tmp_path}", "prompt=eol").model
    encoder = instantiate(cfg, template=TEMPLATE, _convert_="all").eval()
    assert not any("lm_head" in name for name, _ in encoder.named_modules())
    assert encoder.encode(SENTENCES).shape == (5, 32)
    linear = [module for module in encoder.backbone.modules() if isinstance(module, Linear4bit)]
    assert len(linear) == (12 if choice == "opt6_7b" else 14)
    rank = {p.shape[0] for name, p in encoder.named_parameters() if "lora_A" in name}
    assert rank == {64}

"""Encoders of encoder-decoders, against the library's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig
from transformers import (
    PreTrainedModel,
    T5EncoderModel,
)

from sts_lightning.export.merged import write_merged
from sts_lightning.models.encoder import SentenceEncoder
from tests.support.families import tiny, write
from tests.support.sentences import LOWER_CASE
from tests.unit.models.test_encoder_decoder import FAMILIES, in_double, reference


@FAMILIES
@pytest.mark.parametrize("checkpointing", [False, True])
def test_gradients_are_those_of_the_encoder(
    model_type: str, settings: dict[str, Any], checkpointing: bool, tmp_path: Path
) -> None:
    whole = tiny(model_type, **settings)
    encoder = in_double(write(whole, tmp_path), whole).train()
    if checkpointing:
        encoder.checkpoint_layers()
    weights = torch.arange(4 * 32).reshape(4, 32).cos()
    (reference(whole.get_encoder()) * weights).sum().backward()
    (encoder(encoder.tokenizer.rows(LOWER_CASE, 40)) * weights).sum().backward()
    own = encoder.backbone.get_encoder() if hasattr(encoder.backbone, "shared") else encoder.backbone
    expected = dict(whole.get_encoder().named_parameters())
    compared = 0
    for name, parameter in own.named_parameters():
        gradient = expected[name].grad
        if gradient is None:  # sinusoidal positions
            assert parameter.grad is None
            continue
        scale = float(gradient.abs().max())
        torch.testing.assert_close(parameter.grad, gradient, atol=5e-7 * scale + 1e-12, rtol=1e-6)
        compared += 1
    assert compared >= 17


@pytest.mark.parametrize("quantization", ["none", "4bit"])
def test_a_merged_folder_of_t5_loads_in_the_library_and_here(quantization: str, tmp_path: Path) -> None:
    lora = LoraConfig(
        task_type="FEATURE_EXTRACTION", r=4, target_modules="all-linear", init_lora_weights=False
    )
    folder = write(tiny("t5"), tmp_path / "base")
    encoder = SentenceEncoder.from_pretrained(folder, adapter=lora, quantization=quantization).eval()  # type: ignore[arg-type]
    vectors = encoder.encode(LOWER_CASE)
    (tmp_path / "merged").mkdir()
    write_merged(encoder, tmp_path / "merged")
    loaded: PreTrainedModel = T5EncoderModel.from_pretrained(tmp_path / "merged").eval()
    tolerance = (1e-5 if quantization == "none" else 1e-2) * abs(vectors).max()
    np.testing.assert_allclose(vectors, reference(loaded).detach().numpy(), atol=tolerance)
    again = SentenceEncoder.from_pretrained(str(tmp_path / "merged")).eval()
    np.testing.assert_allclose(again.encode(LOWER_CASE), reference(loaded).detach().numpy(), atol=1e-5)

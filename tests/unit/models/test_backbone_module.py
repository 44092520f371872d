"""Precision and recomputed layers of an encoder's transformer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from peft import PrefixTuningConfig

from sts_lightning.core.errors import ConfigError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import character_tokenizer, tiny_bert
from tests.support.families import tiny
from tests.support.sentences import SENTENCES


def test_bfloat16_is_near_float32() -> None:
    full, half = tiny_bert().encode(SENTENCES), tiny_bert().set_precision("bf16-true").encode(SENTENCES)
    assert half.dtype == np.float32
    np.testing.assert_allclose(full, half, atol=0.1)
    assert not np.array_equal(full, half)


def test_a_precision_of_training_is_none_of_inference() -> None:
    with pytest.raises(ConfigError, match="32-true, bf16-true, 16-true here"):
        tiny_bert().set_precision("bf16-mixed")  # type: ignore[arg-type]


def test_layers_after_a_prefix_cannot_be_recomputed() -> None:
    prefix = PrefixTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=4)
    with pytest.raises(ConfigError, match=r"trainer\.gradient_checkpointing: a trained prefix"):
        tiny_bert(adapter=prefix).checkpoint_layers()


def test_a_model_whose_layers_cannot_be_recomputed() -> None:
    with pytest.raises(ConfigError, match=r"trainer\.gradient_checkpointing"):
        SentenceEncoder(tiny("mpnet"), character_tokenizer(), max_length=64).checkpoint_layers()


@pytest.mark.parametrize("model_type", ["llama", "modernbert"])
def test_angles_of_rotary_positions_keep_their_precision(model_type: str) -> None:
    """As in a model that transformers loads in this precision."""
    encoder = SentenceEncoder(tiny(model_type), character_tokenizer(), max_length=64)
    before = {name: value.clone() for name, value in encoder.named_buffers() if "inv_freq" in name}
    encoder.set_precision("bf16-true")
    after = dict(encoder.named_buffers())
    assert before
    for name, value in before.items():
        torch.testing.assert_close(after[name], value, rtol=0, atol=0)
    assert encoder.backbone.dtype == torch.bfloat16
    assert np.isfinite(encoder.encode(SENTENCES)).all()

"""Rows that a model has no positions for are rejected before training."""

from __future__ import annotations

from typing import Any

import pytest
from peft import PrefixTuningConfig

from sts_lightning.models.compute.bidirectional import layer_windows
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.text.lengths import most_positions
from sts_lightning.testing.tiny_bert import character_tokenizer
from tests.support.families import tiny


def build(model_type: str, **settings: Any) -> SentenceEncoder:
    return SentenceEncoder(tiny(model_type), character_tokenizer(), **settings).eval()


@pytest.mark.parametrize(
    ("model_type", "offset"),
    [("bert", 0), ("roberta", 1), ("xlm-roberta", 1), ("mpnet", 2), ("gpt2", 0), ("opt", 0), ("bart", 0)],
)
@pytest.mark.parametrize("template", [None, "it : {sentence} ."])
def test_the_longest_row_fits_and_one_more_token_is_rejected(
    model_type: str, offset: int, template: str | None
) -> None:
    """Positions are 256; RoBERTa's family starts after the padding index, which is 0 here and 1 in MPNet."""
    backbone = tiny(model_type)
    if model_type == "bart":
        backbone = backbone.get_encoder()
    added = 0 if template is None else 6  # i t : . and the two special tokens
    most = 256 - offset - added
    settings: dict[str, Any] = {"template": template}
    encoder = SentenceEncoder(backbone, character_tokenizer(), max_length=most, **settings).eval()
    assert encoder.encode(["a " * 400]).shape == (1, 32)
    assert len(encoder.tokenizer(["a " * 400])[0]) == 256 - offset
    with pytest.raises(ValueError, match=rf"at most {most}, got {most + 1}"):
        SentenceEncoder(backbone, character_tokenizer(), max_length=most + 1, **settings)


def test_a_trained_prefix_takes_positions() -> None:
    prefix = PrefixTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=16)
    assert build("bert", max_length=240, adapter=prefix).encode(["a " * 400]).shape == (1, 32)
    with pytest.raises(ValueError, match=r"at most 240, got 241: .* 256 tokens, up to 16"):
        build("bert", max_length=241, adapter=prefix)


def test_a_template_longer_than_the_model() -> None:
    with pytest.raises(ValueError, match="up to 262 of them template"):
        build("bert", max_length=8, template="a " * 260 + "{sentence}")


@pytest.mark.parametrize("model_type", ["t5", "xlnet"])
def test_relative_positions_have_no_limit(model_type: str) -> None:
    backbone = tiny(model_type)
    if model_type == "t5":
        backbone = backbone.get_encoder()
    assert most_positions(backbone) is None
    encoder = SentenceEncoder(backbone, character_tokenizer(), max_length=1000).eval()
    assert encoder.encode(["a" * 900]).shape == (1, 32)


def test_windows_of_layers() -> None:
    assert layer_windows(tiny("mistral", sliding_window=8).config, 2) == [8, 8]
    assert layer_windows(tiny("mistral", sliding_window=None).config, 2) == [None, None]
    kinds = ["sliding_attention", "full_attention"]
    assert layer_windows(tiny("gemma3_text", sliding_window=8, layer_types=kinds).config, 2) == [8, None]
    assert layer_windows(tiny("llama").config, 2) == [None, None]

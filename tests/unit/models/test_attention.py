"""Bidirectional layers of causal models, where windows are narrow or the model is of another kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import character_tokenizer, tiny_bert
from sts_lightning.testing.tiny_decoders import tiny_llama
from tests.support.decoders import FAMILIES, SENTENCES, Make
from tests.support.families import tiny

WINDOWED = pytest.mark.parametrize("model_type", ["mistral", "gemma3_text", "gpt_oss"])


def build(model_type: str, config: dict[str, Any], **settings: Any) -> SentenceEncoder:
    return SentenceEncoder(tiny(model_type, **config), character_tokenizer(), **settings).eval()


def windowed(model_type: str, window: int | None) -> dict[str, Any]:
    if model_type == "mistral":
        return {"sliding_window": window}
    return {"sliding_window": window, "layer_types": ["sliding_attention"] * 2}


@WINDOWED
def test_a_row_that_could_exceed_the_window_is_rejected(model_type: str) -> None:
    config = windowed(model_type, 16)
    with pytest.raises(ValueError, match=r"max_length must be at most 16, got 20"):
        build(model_type, config, max_length=20, bidirectional_layers=-1)
    template = "it : {sentence} ."  # six tokens with the special ones
    with pytest.raises(ValueError, match=r"max_length must be at most 10, got 11"):
        build(model_type, config, max_length=11, template=template, bidirectional_layers=1)
    build(model_type, config, max_length=10, template=template, bidirectional_layers=1)


@WINDOWED
def test_rows_within_the_window_see_all_their_tokens(model_type: str) -> None:
    """Against the same model with a window that is wider than any row, its causal mask switched off."""
    encoder = build(model_type, windowed(model_type, 16), max_length=16, bidirectional_layers=-1)
    vectors = encoder.encode(["abcdefghijklmnop", "xyz", "a b c"], chunk_tokens=10_000)
    wide = build(model_type, windowed(model_type, 512), max_length=16)
    for layer in wide.backbone.layers:
        layer.self_attn.is_causal = False
        layer.register_forward_pre_hook(no_mask, with_kwargs=True)
    for text, vector in zip(["abcdefghijklmnop", "xyz", "a b c"], vectors, strict=True):
        ids = torch.tensor(encoder.tokenizer([text]))
        with torch.no_grad():
            expected = wide.backbone(input_ids=ids).last_hidden_state[0].mean(dim=0)
        np.testing.assert_allclose(vector, expected.numpy(), atol=1e-5)


def no_mask(layer: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    mask = kwargs.get("attention_mask")
    return args, {
        **kwargs,
        "attention_mask": None if mask is None else torch.zeros_like(mask, dtype=torch.float),
    }


def test_only_the_changed_layers_count() -> None:
    kinds = ["sliding_attention", "full_attention"]
    config = {"sliding_window": 8, "layer_types": kinds}
    build("gemma3_text", config, max_length=64, bidirectional_layers=1)
    with pytest.raises(ValueError, match=r"at most 8, got 64"):
        build("gemma3_text", config, max_length=64, bidirectional_layers=2)


@pytest.mark.parametrize("model_type", ["gpt2", "gpt_neox", "bloom", "falcon", "mamba"])
def test_a_causal_model_of_another_kind_is_not_called_bidirectional(model_type: str) -> None:
    with pytest.raises(ValueError, match=r"bidirectional_layers is not supported for"):
        build(model_type, {}, max_length=64, bidirectional_layers=-1)


def test_recurrent_layers_would_stay_causal() -> None:
    with pytest.raises(ValueError, match=r"not supported for .*1 of its 2 layers"):
        build("qwen3_next", HYBRID, max_length=64, bidirectional_layers=-1)


HYBRID = {
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_value_heads": 2,
    "linear_num_key_heads": 1,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "shared_expert_intermediate_size": 32,
}


@FAMILIES
def test_bidirectional_tokens_see_what_stands_behind_them_but_no_padding(make: Make) -> None:
    """The first token's vector depends on the last one, and on nothing else that is in the batch."""
    causal = make(pooling="cls").eval()
    both_ways = make(pooling="cls", bidirectional_layers=-1).eval()
    texts = ["abcd", "abce", "abcd and much more than that"]
    ahead, around = causal.encode(texts), both_ways.encode(texts, chunk_tokens=10_000)
    np.testing.assert_allclose(ahead[0], ahead[1], atol=1e-6)
    assert abs(around[0] - around[1]).max() > 1e-3
    alone = np.concatenate([both_ways.encode([text]) for text in texts])
    np.testing.assert_allclose(around, alone, atol=2e-6)


@FAMILIES
def test_all_layers_bidirectional_is_what_the_library_does_with_is_causal_false(make: Make) -> None:
    encoder = make(pooling="mean", bidirectional_layers=-1).eval()
    reference = make(pooling="mean").eval()
    reference.backbone.config.is_causal = False
    ids = reference.tokenizer.tokenizer("Some words", return_tensors="pt")
    with torch.no_grad():
        expected = reference.backbone(**ids).last_hidden_state[0].mean(dim=0)
    np.testing.assert_allclose(encoder.encode(["Some words"])[0], expected.numpy(), atol=2e-6)


@pytest.mark.parametrize("model_type", ["llama", "mistral", "qwen2", "qwen3"])
def test_a_decoder_that_is_bidirectional_by_its_configuration(model_type: str) -> None:
    """Its attention modules state the contrary; without a mask it would attend to padding."""
    encoder = build(model_type, {"is_causal": False}, pooling="last_token", max_length=64)
    assert not encoder.causal
    texts = ["abcd", "ebcd", "ebcd and much more than that"]
    np.testing.assert_allclose(
        encoder.encode(texts), np.concatenate([encoder.encode([text]) for text in texts]), atol=2e-6
    )
    first = build(model_type, {"is_causal": False}, pooling="cls", max_length=64)
    assert abs(first.encode(["abcd"]) - first.encode(["abce"])).max() > 1e-4
    with pytest.raises(ValueError, match="not causal, its layers are bidirectional already"):
        build(model_type, {"is_causal": False}, max_length=64, bidirectional_layers=-1)


def test_only_the_last_layer_bidirectional() -> None:
    """Below it tokens see what stands before them, as in BeLLM: hidden states of that layer are as ever."""
    last = tiny_llama(pooling="cls", bidirectional_layers=1).eval()
    below = tiny_llama(pooling="cls", bidirectional_layers=1, layer=-2).eval()
    causal = tiny_llama(pooling="cls", layer=-2).eval()
    np.testing.assert_allclose(below.encode(SENTENCES), causal.encode(SENTENCES), atol=1e-6)
    assert abs(last.encode(["ab"]) - last.encode(["ac"])).max() > 1e-3


@pytest.mark.parametrize(("count", "message"), [(3, "must lie between 0 and 2"), (-2, "must be at least -1")])
def test_bidirectional_layers_that_are_not_there(count: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tiny_llama(bidirectional_layers=count)


def test_bert_is_bidirectional_already() -> None:
    with pytest.raises(ValueError, match="not causal"):
        tiny_bert(bidirectional_layers=1)

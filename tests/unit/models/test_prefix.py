"""A prefix that is read once changes no vector, whatever the attention windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from peft import PrefixTuningConfig

from sts_lightning.models.compute import shared_prefix
from sts_lightning.models.compute.shared_prefix import SharedPrefix, split_prefix
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import character_tokenizer
from sts_lightning.testing.tiny_decoders import tiny_llama, tiny_mistral
from tests.support.decoders import FAMILIES, Make, decoder
from tests.support.decoders import TEMPLATE as WORD
from tests.support.families import tiny
from tests.support.sentences import LOWER_CASE
from tests.unit.models.test_attention import HYBRID

TEMPLATE = 'this is a template whose first part is longer than the window : "{sentence}" means'


def vectors_with_and_without(
    encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> tuple[np.ndarray, np.ndarray, list[SharedPrefix | None]]:
    """Vectors with a shared prefix, one sentence at a time without one, and the prefixes computed."""
    prefixes: list[SharedPrefix | None] = []

    def spy(*arguments: Any) -> Any:
        prefix, rows = split_prefix(*arguments)
        prefixes.append(prefix)
        return prefix, rows

    monkeypatch.setattr(shared_prefix, "split_prefix", spy)
    shared = encoder.encode(LOWER_CASE, chunk_tokens=200)
    rows = []
    for ids in encoder.tokenizer(LOWER_CASE):
        with torch.no_grad():
            rows.append(encoder.backbone(input_ids=torch.tensor([ids])).last_hidden_state[0, -1].numpy())
    return shared, np.stack(rows), prefixes


def build(model_type: str, **config: Any) -> SentenceEncoder:
    return SentenceEncoder(
        tiny(model_type, **config),
        character_tokenizer(),
        pooling="last_token",
        max_length=64,
        template=TEMPLATE,
    ).eval()


@pytest.mark.parametrize("window", [4, 16, 55, 56, 4096])
@pytest.mark.parametrize("model_type", ["mistral", "gemma3_text", "gemma2", "gpt_oss", "qwen2"])
def test_sliding_windows(model_type: str, window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    config: dict[str, Any] = {"sliding_window": window}
    if model_type != "mistral":
        config["layer_types"] = ["sliding_attention", "full_attention"]
    if model_type == "qwen2":
        config["use_sliding_window"] = True
    shared, alone, prefixes = vectors_with_and_without(build(model_type, **config), monkeypatch)
    assert [None if prefix is None else prefix.layers[0][0].shape[2] for prefix in prefixes] == [53]
    np.testing.assert_allclose(shared, alone, atol=2e-5)


@pytest.mark.parametrize(
    ("model_type", "config"),
    [("qwen3_next", HYBRID), ("lfm2", {"layer_types": ["conv", "full_attention"]})],
    ids=["qwen3_next", "lfm2"],
)
def test_states_of_recurrent_layers_are_not_shared(
    model_type: str, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, alone, prefixes = vectors_with_and_without(build(model_type, **config), monkeypatch)
    assert not any(prefixes)
    np.testing.assert_allclose(shared, alone, atol=2e-5)


def test_a_model_that_keeps_the_keys_of_some_layers_only() -> None:
    encoder = build("mistral")
    rows = encoder.tokenizer.rows(LOWER_CASE, 200)

    def first_layer_only(past_key_values: Any, **inputs: Any) -> None:
        length = inputs["input_ids"].shape[1]
        past_key_values.update(torch.zeros(1, 1, length, 16), torch.zeros(1, 1, length, 16), 0)

    prefix, rest = split_prefix(first_layer_only, encoder.plain_backbone, rows)
    assert prefix is None
    assert rest is rows


@FAMILIES
def test_a_shared_prefix_changes_nothing(make: Make) -> None:
    encoder = decoder(make)
    np.testing.assert_allclose(
        encoder.encode(LOWER_CASE), encoder.encode(LOWER_CASE, share_prefix=False), atol=2e-6
    )


def test_a_trained_prefix_and_a_shared_one() -> None:
    prefix = PrefixTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=3)
    encoder = decoder(tiny_llama, adapter=prefix)
    alone = np.concatenate([encoder.encode([sentence]) for sentence in LOWER_CASE])
    np.testing.assert_allclose(encoder.encode(LOWER_CASE), alone, atol=2e-6)
    assert abs(alone - decoder(tiny_llama).encode(LOWER_CASE)).max() > 1e-3


def test_the_prefix_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = decoder(tiny_mistral)
    seen: list[int] = []
    whole = encoder.backbone.forward

    def count(*args: Any, **kwargs: Any) -> Any:
        seen.append(kwargs["input_ids"].numel())
        return whole(*args, **kwargs)

    monkeypatch.setattr(encoder.backbone, "forward", count)
    encoder.encode(LOWER_CASE, chunk_tokens=64)
    lengths = [len(ids) for ids in encoder.tokenizer(LOWER_CASE)]
    prefix = len('<This sentence : "')  # with one start token for the first character
    assert seen[0] == prefix
    assert sum(seen[1:]) < sum(lengths) - prefix * len(LOWER_CASE) + 64


@pytest.mark.parametrize(
    "sentences",
    [["abc"], ["abc", "abc"], ["", "a"], ["This is", "That is"]],
    ids=["one", "equal", "empty", "no template"],
)
def test_prefixes_at_the_edge(sentences: list[str]) -> None:
    for template in (WORD, None):
        encoder = tiny_mistral(template=template, pooling="last_token").eval()
        shared = encoder.encode(sentences)
        np.testing.assert_allclose(shared, encoder.encode(sentences, share_prefix=False), atol=2e-6)

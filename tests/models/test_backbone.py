"""Causal models: loading, quantisation, adapters, padding, shared prefix, bidirectional attention."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bitsandbytes.nn import Linear4bit
from hydra.utils import instantiate
from peft import LoraConfig, PrefixTuningConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, MistralConfig, MistralForCausalLM

from sts_lightning.errors import CheckpointError, ConfigError
from sts_lightning.models import quantization as quantization_module
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.testing.tiny_decoders import byte_tokenizer, tiny_llama, tiny_mistral, tiny_opt

Make = Callable[..., SentenceEncoder]

TEMPLATE = 'This sentence : "{sentence}" means in one word:"'
SENTENCES = ["A dog runs.", "Someone plays a guitar in the park", "x", "Two men are sitting", "Go on"]

FAMILIES = pytest.mark.parametrize("make", [tiny_opt, tiny_llama, tiny_mistral])


def lora(**settings: Any) -> LoraConfig:
    return LoraConfig(
        task_type="FEATURE_EXTRACTION", r=4, lora_alpha=8, target_modules="all-linear", **settings
    )


def decoder(make: Make, **settings: Any) -> SentenceEncoder:
    return make(template=TEMPLATE, pooling="last_token", **settings).eval()


def cosines(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
    return np.asarray((one * two).sum(axis=1) / lengths)


@FAMILIES
def test_the_vector_is_that_of_the_last_token_without_padding(make: Make) -> None:
    """Against the library's own model, one sentence at a time."""
    encoder = decoder(make)
    vectors = encoder.encode(SENTENCES, chunk_tokens=10_000)
    for sentence, vector in zip(SENTENCES, vectors, strict=True):
        ids = encoder.tokenizer.tokenizer(TEMPLATE.replace("{sentence}", sentence), return_tensors="pt")
        with torch.no_grad():
            expected = encoder.backbone(**ids).last_hidden_state[0, -1]
        np.testing.assert_allclose(vector, expected.numpy(), atol=2e-6)


@FAMILIES
def test_the_padding_side_does_not_matter(make: Make) -> None:
    encoder = decoder(make)
    vectors = encoder.encode(SENTENCES)
    tokenizer = encoder.tokenizer.tokenizer
    texts = [TEMPLATE.replace("{sentence}", sentence) for sentence in SENTENCES]
    tokenizer.padding_side = "left"
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        left = encoder.backbone(**batch).last_hidden_state[:, -1]
    np.testing.assert_allclose(vectors, left.numpy(), atol=5e-6)


@FAMILIES
def test_a_shared_prefix_changes_nothing(make: Make) -> None:
    encoder = decoder(make)
    np.testing.assert_allclose(
        encoder.encode(SENTENCES), encoder.encode(SENTENCES, share_prefix=False), atol=2e-6
    )


def test_a_trained_prefix_and_a_shared_one() -> None:
    prefix = PrefixTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=3)
    encoder = decoder(tiny_llama, adapter=prefix)
    alone = np.concatenate([encoder.encode([sentence]) for sentence in SENTENCES])
    np.testing.assert_allclose(encoder.encode(SENTENCES), alone, atol=2e-6)
    assert abs(alone - decoder(tiny_llama).encode(SENTENCES)).max() > 1e-3


def test_the_prefix_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = decoder(tiny_mistral)
    seen: list[int] = []
    whole = encoder.backbone.forward

    def count(*args: Any, **kwargs: Any) -> Any:
        seen.append(kwargs["input_ids"].numel())
        return whole(*args, **kwargs)

    monkeypatch.setattr(encoder.backbone, "forward", count)
    encoder.encode(SENTENCES, chunk_tokens=64)
    lengths = [len(ids) for ids in encoder.tokenizer(SENTENCES)]
    prefix = len('<This sentence : "')  # with one start token for the first character
    assert seen[0] == prefix
    assert sum(seen[1:]) < sum(lengths) - prefix * len(SENTENCES) + 64


@pytest.mark.parametrize(
    "sentences",
    [["abc"], ["abc", "abc"], ["", "a"], ["This is", "That is"]],
    ids=["one", "equal", "empty", "no template"],
)
def test_prefixes_at_the_edge(sentences: list[str]) -> None:
    for template in (TEMPLATE, None):
        encoder = tiny_mistral(template=template, pooling="last_token").eval()
        shared = encoder.encode(sentences)
        np.testing.assert_allclose(shared, encoder.encode(sentences, share_prefix=False), atol=2e-6)


@FAMILIES
@pytest.mark.parametrize("quantization", ["4bit", "8bit"])
def test_quantised_weights_give_nearly_the_same_vectors(make: Make, quantization: str) -> None:
    plain, quantised = decoder(make), decoder(make, quantization=quantization)
    types = {type(module).__name__ for module in quantised.backbone.modules()}
    assert {"4bit": "Linear4bit", "8bit": "Linear8bitLt"}[quantization] in types
    least = {"4bit": 0.97, "8bit": 0.999}[quantization]
    likeness = cosines(plain.encode(SENTENCES), quantised.encode(SENTENCES))
    assert (likeness > least).all()
    assert (likeness < 1 - 1e-6).any()


def test_4bit_is_nf4_with_nested_scales_and_bf16_arithmetic() -> None:
    encoder = decoder(tiny_llama, quantization="4bit", dtype="bfloat16", adapter=lora())
    linear = encoder.backbone.base_model.model.layers[0].self_attn.q_proj.base_layer
    assert linear.weight.quant_state.quant_type == "nf4"
    assert linear.weight.quant_state.nested
    assert linear.compute_dtype == torch.bfloat16
    assert encoder.precision == "bf16-true"
    trained = [parameter for parameter in encoder.parameters() if parameter.requires_grad]
    assert {parameter.dtype for parameter in trained} == {torch.float32}
    assert len(trained) == 2 * 2 * 7  # A and B of the seven linear layers of each of two layers


def test_evaluation_on_a_cpu_leaves_quantised_weights_alone() -> None:
    """bitsandbytes would repack them, less precisely, when a layer is first used without gradient."""
    encoder = decoder(tiny_mistral, hidden_size=64, quantization="4bit", adapter=lora())
    weight = encoder.backbone.base_model.model.layers[0].mlp.up_proj.base_layer.weight
    before = weight.data.clone()
    encoder.encode(SENTENCES)
    assert torch.equal(weight.data, before)
    assert weight.quant_state.nested


@pytest.mark.parametrize("choice", ["opt6_7b", "llama7b", "llama2_7b", "mistral7b"])
def test_a_7b_configuration_loads_a_small_model_of_its_class(
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


def test_the_layer_below_the_last() -> None:
    encoder = decoder(tiny_mistral, layer=-2)
    ids = encoder.tokenizer.tokenizer(TEMPLATE.replace("{sentence}", "A dog"), return_tensors="pt")
    with torch.no_grad():
        expected = encoder.backbone(**ids, output_hidden_states=True).hidden_states[-2][0, -1]
    np.testing.assert_allclose(encoder.encode(["A dog"])[0], expected.numpy(), atol=2e-6)
    both = encoder.encode(["A dog", "Some cats sleep"])
    np.testing.assert_allclose(both[0], expected.numpy(), atol=2e-6)


@pytest.mark.parametrize("layer", [0, 1, -4])
def test_a_layer_that_is_not_there(layer: int) -> None:
    with pytest.raises(ValueError, match="must lie between -2 and -1"):
        decoder(tiny_mistral, layer=layer)


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


def test_only_the_last_layer_bidirectional() -> None:
    """Below it tokens see what stands before them, as in BeLLM: hidden states of that layer are as ever."""
    last = tiny_llama(pooling="cls", bidirectional_layers=1).eval()
    below = tiny_llama(pooling="cls", bidirectional_layers=1, layer=-2).eval()
    causal = tiny_llama(pooling="cls", layer=-2).eval()
    np.testing.assert_allclose(below.encode(SENTENCES), causal.encode(SENTENCES), atol=1e-6)
    assert abs(last.encode(["ab"]) - last.encode(["ac"])).max() > 1e-3


@pytest.mark.parametrize("count", [3, -2])
def test_bidirectional_layers_that_are_not_there(count: int) -> None:
    with pytest.raises(ValueError, match="must lie between 0 and 2"):
        tiny_llama(bidirectional_layers=count)


def test_bert_is_bidirectional_already() -> None:
    with pytest.raises(ValueError, match="not causal"):
        tiny_bert(bidirectional_layers=1)


def test_an_adapter_that_does_not_fit() -> None:
    wrong = LoraConfig(task_type="FEATURE_EXTRACTION", target_modules=["query"])
    with pytest.raises(ValueError, match=r"adapter does not fit MistralModel"):
        tiny_mistral(adapter=wrong)


def test_an_adapters_configuration_serves_more_than_one_model() -> None:
    shared = lora()
    tiny_opt(adapter=shared)
    tiny_mistral(adapter=shared)


def test_missing_bitsandbytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantization_module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"needs bitsandbytes and accelerate: pip install"):
        SentenceEncoder.from_pretrained("nowhere", quantization="4bit")


def test_a_mask_template_for_a_model_without_mask() -> None:
    with pytest.raises(ValueError, match="has no mask token; choose a prompt for causal models"):
        tiny_mistral(template="{sentence} means {mask}.", pooling="mask_token")


def test_a_tokenizer_without_pad_and_end_token(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer("<s>")
    tokenizer.eos_token = None
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    MistralForCausalLM(MistralConfig(vocab_size=300, num_key_value_heads=1, **sizes)).save_pretrained(
        tmp_path
    )
    tokenizer.save_pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path).pad_token is None
    with pytest.raises(ConfigError, match="neither a pad token"):
        SentenceEncoder.from_pretrained(str(tmp_path))


def test_a_model_with_weights_missing(tmp_path: Path) -> None:
    small = tiny_mistral(layers=1)
    small.backbone.save_pretrained(tmp_path)
    small.tokenizer.tokenizer.save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="lacks 9 weights of MistralModel"):
        SentenceEncoder.from_pretrained(str(tmp_path), config={"num_hidden_layers": 2})


def test_truncation_cuts_the_sentence_never_the_template() -> None:
    encoder = decoder(tiny_mistral, max_length=4)
    assert encoder.tokenizer(["abcdefgh"]) == encoder.tokenizer(["abcd"])
    text = encoder.tokenizer.tokenizer.decode(encoder.tokenizer(["abcdefgh"])[0], skip_special_tokens=True)
    assert text == 'This sentence : "abcd" means in one word:"'

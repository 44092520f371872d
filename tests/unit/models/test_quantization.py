"""How much of a model bitsandbytes reaches, and what undoing it gives."""

from __future__ import annotations

import copy
import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from bitsandbytes.nn import Linear4bit, Linear8bitLt
from peft import LoraConfig
from transformers import AutoModel
from transformers.pytorch_utils import Conv1D

from sts_lightning.core.choices import Quantization
from sts_lightning.export.merged import write_merged
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.folder import write_model
from sts_lightning.models.loading.pipeline import read_model
from sts_lightning.models.loading.quantization import dequantized
from sts_lightning.testing.tiny_decoders import tiny_llama, tiny_mistral
from tests.support.decoders import FAMILIES, Make, cosines, decoder, lora
from tests.support.families import tiny, write

SENTENCES = ["a dog runs.", "someone plays a guitar in the park", "x"]

KINDS = pytest.mark.parametrize("quantization", ["4bit", "8bit"])


@KINDS
@pytest.mark.parametrize("model_type", ["falcon", "mixtral", "gpt_oss"])
def test_a_model_that_is_hardly_quantised_is_rejected(
    model_type: str, quantization: Quantization, tmp_path: Path
) -> None:
    folder = write(tiny(model_type), tmp_path)
    with pytest.raises(ValueError, match=rf"quantization '{quantization}' reaches.*none"):
        SentenceEncoder.from_pretrained(folder, quantization=quantization)
    SentenceEncoder.from_pretrained(folder)


@KINDS
@pytest.mark.parametrize("model_type", ["llama", "gpt2", "bert", "bloom", "bart"])
def test_the_share_is_logged(
    model_type: str, quantization: Quantization, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write(tiny(model_type), tmp_path)
    with caplog.at_level(logging.INFO):
        encoder = SentenceEncoder.from_pretrained(folder, quantization=quantization)
    kinds = {"4bit": Linear4bit, "8bit": Linear8bitLt}
    layers = [module for module in encoder.modules() if isinstance(module, kinds[quantization])]
    count = sum(layer.in_features * layer.out_features for layer in layers)
    assert f"{quantization}: 100 % of {count:,} linear weights" in caplog.text


def test_what_a_model_keeps_in_full_precision_is_no_reason_to_reject_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        SentenceEncoder.from_pretrained(write(tiny("t5"), tmp_path), quantization="4bit")
    # Each of two layers has four square matrices of attention and two of 32 x 64, one of them quantised.
    assert "4bit: 75 % of 16,384 linear weights" in caplog.text


@KINDS
def test_gpt2s_layers_keep_their_orientation(quantization: Quantization, tmp_path: Path) -> None:
    """Vectors against the original class with the quantised values, through memory and through a folder."""
    plain = tiny("gpt2")
    folder = write(plain, tmp_path / "base")
    encoder = SentenceEncoder.from_pretrained(folder, quantization=quantization).eval()
    vectors = encoder.encode(SENTENCES)
    undone = dequantized(copy.deepcopy(encoder.backbone))
    for name, module in plain.named_modules():
        if isinstance(module, Conv1D):
            other = undone.get_submodule(name)
            assert isinstance(other, Conv1D)
            assert other.weight.shape == module.weight.shape
            likeness = torch.cosine_similarity(other.weight.flatten(), module.weight.flatten(), dim=0)
            assert likeness > 0.97
    (tmp_path / "merged").mkdir()
    write_merged(encoder, tmp_path / "merged")
    read = SentenceEncoder(AutoModel.from_pretrained(tmp_path / "merged"), encoder.tokenizer.tokenizer).eval()
    np.testing.assert_allclose(
        read.encode(SENTENCES),
        SentenceEncoder(undone, encoder.tokenizer.tokenizer).eval().encode(SENTENCES),
        atol=1e-6,
    )
    tolerance = {"4bit": 1e-5, "8bit": 0.03}[quantization]  # 8 bit rounds the activations too
    np.testing.assert_allclose(read.encode(SENTENCES), vectors, atol=tolerance * abs(vectors).max())


def test_gpt2_with_lora_in_4bit_is_merged(tmp_path: Path) -> None:
    lora = LoraConfig(
        task_type="FEATURE_EXTRACTION", r=4, target_modules="all-linear", init_lora_weights=False
    )
    folder = write(tiny("gpt2"), tmp_path / "base")
    encoder = SentenceEncoder.from_pretrained(folder, quantization="4bit", adapter=lora).eval()
    vectors = encoder.encode(SENTENCES)
    (tmp_path / "merged").mkdir()
    write_merged(encoder, tmp_path / "merged")
    read = SentenceEncoder.from_pretrained(str(tmp_path / "merged")).eval()
    np.testing.assert_allclose(read.encode(SENTENCES), vectors, atol=1e-5 * abs(vectors).max())


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


def test_what_8_bit_layers_keep_beside_their_weights_moves_with_them() -> None:
    """A copy of every tensor stands in for a move to another device: the copy would stay on the GPU."""
    encoder = tiny_mistral(quantization="8bit").eval()
    vectors = encoder.encode(SENTENCES)  # the first pass makes the copy
    layers = [module for module in encoder.modules() if isinstance(module, Linear8bitLt)]
    assert all(layer.state.CB.data_ptr() == layer.weight.data_ptr() for layer in layers)
    before = {layer.weight.data_ptr() for layer in layers}
    encoder._apply(lambda tensor: tensor.clone())
    assert not before & {layer.weight.data_ptr() for layer in layers}
    assert all(layer.state.CB.data_ptr() == layer.weight.data_ptr() for layer in layers)
    np.testing.assert_array_equal(encoder.encode(SENTENCES), vectors)


def test_a_quantised_base_without_a_name_is_read_and_written_again(tmp_path: Path) -> None:
    encoder = decoder(tiny_mistral, hidden_size=64, quantization="4bit", adapter=lora())
    for folder in (tmp_path / "first", tmp_path / "second"):
        write_model(encoder, folder)
        read, _ = read_model(str(folder))
        np.testing.assert_array_equal(read.eval().encode(SENTENCES), encoder.eval().encode(SENTENCES))
        encoder = read

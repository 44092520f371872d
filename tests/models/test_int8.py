"""Conversion of encoders to 8-bit integers, against float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from sts_lightning.errors import ConfigError
from sts_lightning.models import int8
from sts_lightning.models.adapter import add_adapter
from sts_lightning.models.cosines import cosines
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.int8 import best_layer, multiplies_int8
from sts_lightning.models.int8_linear import DynamicInt8Linear, StaticInt8Linear
from tests.models.decoders import lora
from tests.models.families import FAMILIES, NEEDED, tiny, write

needs_instructions = pytest.mark.skipif(
    not multiplies_int8(), reason="needs a CPU with AVX512-VNNI or AMX, whose 8-bit products are exact"
)

OUTSIDE = ("falcon", "falcon_mamba", "gpt2", "gpt_oss", "mamba", "mixtral", "qwen3_moe", "xlnet")
"""Families with weights in other layers than linear ones."""

SENTENCES = [" ".join("abcdefgh"[: 1 + index % 8] * (1 + index % 3)) for index in range(12)]


def encoder_of(model_type: str, folder: Path, **settings: object) -> SentenceEncoder:
    path = write(tiny(model_type, **NEEDED.get(model_type, {})), folder)
    return SentenceEncoder.from_pretrained(path, max_length=64, **settings).eval()


@needs_instructions
def test_the_faster_layer_is_taken_where_it_is_nearly_as_exact() -> None:
    torch.manual_seed(0)
    linear, inputs = nn.Linear(24, 10), torch.rand(400, 24) - 0.3
    assert isinstance(best_layer(linear, inputs[:200], inputs[200:]), StaticInt8Linear)
    large = inputs.clone()
    large[7] *= 100  # one token would take the range of all others
    assert isinstance(best_layer(linear, large[:200], large[200:]), DynamicInt8Linear)
    assert isinstance(best_layer(linear, inputs[:200], 3 * inputs[200:]), DynamicInt8Linear)  # clipped


@needs_instructions
def test_the_share_of_the_inputs_is_the_best_one(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    linear, inputs = nn.Linear(24, 10), torch.randn(400, 24)
    inputs[:, 3] *= 40

    def error(alphas: tuple[float, ...]) -> float:
        monkeypatch.setattr(int8, "ALPHAS", alphas)
        layer = best_layer(linear, inputs[:200], inputs[200:])
        return float((layer(inputs) - linear(inputs)).norm())

    every = int8.ALPHAS
    alone = [error((alpha,)) for alpha in every]
    assert error(every) == min(alone) < max(alone)


@needs_instructions
@pytest.mark.parametrize("model_type", FAMILIES)
def test_families(model_type: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8, "LIMIT", 0.02)  # random weights cost some families more than trained ones
    encoder = encoder_of(model_type, tmp_path)
    before = encoder.encode(SENTENCES)
    if model_type in OUTSIDE:
        with pytest.raises(ConfigError, match=r"% of the weights of .* are in linear layers; int8 needs 95%"):
            encoder.set_precision("int8")
        np.testing.assert_array_equal(encoder.encode(SENTENCES), before)
        return
    assert encoder.set_precision("int8").precision == "int8"
    after = encoder.encode(SENTENCES)
    assert abs(after - before).max() > 0
    assert abs(cosines(after) - cosines(before)).mean() < 0.02
    # Sums in another order can round an input to the other side.
    np.testing.assert_allclose(encoder.encode(SENTENCES, chunk_tokens=1), after, atol=5e-3 * abs(after).max())


@needs_instructions
def test_a_model_that_loses_too_much_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = encoder_of("bert", tmp_path)
    before = encoder.encode(SENTENCES)
    monkeypatch.setattr(int8, "LIMIT", 1e-9)
    with pytest.raises(ConfigError, match=r"changes the cosines of this model's vectors by .* Use 32-true"):
        encoder.set_precision("int8")
    assert encoder.precision == "32-true"
    np.testing.assert_array_equal(encoder.encode(SENTENCES), before)


@needs_instructions
def test_a_model_whose_vectors_are_not_finite(tmp_path: Path) -> None:
    encoder = encoder_of("bert", tmp_path)
    nn.init.constant_(encoder.backbone.get_submodule("encoder.layer.0.output.dense").weight, torch.nan)
    with pytest.raises(ConfigError, match="int8 needs finite vectors"):
        encoder.set_precision("int8")


@needs_instructions
def test_a_model_that_reads_weights_itself_stays_as_it_was(tmp_path: Path) -> None:
    encoder = encoder_of("bert", tmp_path)
    dense = encoder.backbone.get_submodule("encoder.layer.0.output.dense")

    class Parent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = dense

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            self.inner(values)
            return nn.functional.linear(values, self.inner.weight, self.inner.bias)

    encoder.backbone.set_submodule("encoder.layer.0.output.dense", Parent())
    before = encoder.encode(SENTENCES)
    with pytest.raises(ConfigError, match="reads their weights itself"):
        encoder.set_precision("int8")
    np.testing.assert_array_equal(encoder.encode(SENTENCES), before)


@needs_instructions
def test_there_is_no_way_back(tmp_path: Path) -> None:
    encoder = encoder_of("bert", tmp_path).set_precision("int8")
    vectors = encoder.encode(SENTENCES)
    np.testing.assert_array_equal(encoder.set_precision("int8").encode(SENTENCES), vectors)
    for precision in ("32-true", "bf16-true"):
        with pytest.raises(ConfigError, match="cannot be converted back"):
            encoder.set_precision(precision)


def test_models_that_are_not_converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: True)
    with pytest.raises(ConfigError, match="made from float32 weights"):
        encoder_of("bert", tmp_path / "half").set_precision("bf16-true").set_precision("int8")
    adapted = encoder_of("bert", tmp_path / "adapted")
    adapted.backbone = add_adapter(adapted.backbone, lora())
    with pytest.raises(ConfigError, match=r"without adapter; merge it with `sts-lightning export"):
        adapted.set_precision("int8")


def test_machines_without_the_instructions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_is_vnni_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda: False)
    encoder = encoder_of("bert", tmp_path)
    with pytest.raises(ConfigError, match="no instructions for 8-bit products") as caught:
        encoder.set_precision("int8")
    assert caught.value.key == "precision"
    with pytest.raises(ConfigError, match="on a GPU use bf16-true"):
        encoder.to("meta").set_precision("int8")

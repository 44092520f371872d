"""Every family of models, small and random: gradients, precisions and adapters, whatever is in the batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig
from transformers import PreTrainedModel

from sts_lightning.core.choices import Precision
from sts_lightning.export.merged import write_merged
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.backbone import DTYPES
from sts_lightning.models.same_vectors import TOLERANCES
from sts_lightning.testing.tiny_bert import character_tokenizer
from tests.support.families import COMMON, NEEDED, family, tiny, write
from tests.support.sentences import LOWER_CASE

TEXTS = [*LOWER_CASE, "", "a long row " * 20]
"""Short and long, one that is empty, and one that is cut."""

LENGTH = 64

HALF: tuple[Precision, ...] = ("bf16-true", "16-true")

WITHOUT_LORA = ("falcon_mamba", "mamba")
"""Families whose fused kernels read weights past an adapter, which peft rejects."""


def encoder_of(backbone: PreTrainedModel) -> SentenceEncoder:
    return SentenceEncoder(backbone, character_tokenizer(), max_length=LENGTH).eval()


def plain_vectors(backbone: PreTrainedModel) -> torch.Tensor:
    """Mean of the last hidden state of one text at a time, by the library alone, with gradient."""
    vectors = []
    for text in TEXTS:
        ids = character_tokenizer()(
            text, return_tensors="pt", truncation=True, max_length=LENGTH, return_token_type_ids=False
        )
        vectors.append(backbone(**ids).last_hidden_state[0].mean(dim=0))
    return torch.stack(vectors)


def gradients(backbone: PreTrainedModel, vectors: torch.Tensor) -> dict[str, torch.Tensor]:
    """Gradients of a weighted sum of the vectors; the plain sum of a normalised vector is constant."""
    backbone.zero_grad()
    (vectors * torch.arange(vectors.numel()).reshape(vectors.shape).cos()).sum().backward()
    return {name: p.grad.clone() for name, p in backbone.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("model_type", COMMON)
def test_gradients_are_those_of_a_plain_loop(model_type: str) -> None:
    backbone = family(model_type)
    expected = gradients(backbone, plain_vectors(backbone))
    encoder = encoder_of(backbone)
    for chunk_tokens in (70, 10_000):
        found = gradients(backbone, encoder(encoder.tokenizer.rows(TEXTS, chunk_tokens)))
        assert found.keys() == expected.keys()
        largest = max(float(value.abs().max()) for value in expected.values())
        for name, value in expected.items():
            # Some gradients are 0 but for rounding, as those of the biases of keys.
            torch.testing.assert_close(found[name], value, atol=2e-5 * largest, rtol=1e-3)


def distance(found: np.ndarray, exact: np.ndarray) -> float:
    """Largest distance of a text's vector, as a fraction of its length."""
    return float((np.linalg.norm(found - exact, axis=1) / np.linalg.norm(exact, axis=1)).max())


@pytest.mark.parametrize("model_type", COMMON)
@pytest.mark.parametrize("precision", HALF)
def test_a_vector_does_not_depend_on_its_batch_in_half_precision(
    model_type: str, precision: Precision
) -> None:
    """Padding adds no more than rounding does to a vector that is computed alone."""
    encoder = encoder_of(family(model_type))
    exact = encoder.encode(TEXTS)
    encoder.set_precision(precision)
    assert encoder.backbone.dtype == DTYPES[precision]
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    rounding = distance(alone, exact)
    for chunk_tokens in (70, 10_000):
        found = encoder.encode(TEXTS, chunk_tokens=chunk_tokens)
        assert distance(found, exact) < max(TOLERANCES["16 bit"].difference, 2 * rounding)


@pytest.mark.parametrize("model_type", COMMON)
def test_a_lora_on_all_linear_layers_is_merged(model_type: str, tmp_path: Path) -> None:
    settings = LoraConfig(
        task_type="FEATURE_EXTRACTION", r=2, target_modules="all-linear", init_lora_weights=False
    )
    folder = write(tiny(model_type, **NEEDED.get(model_type, {})), tmp_path / "base")
    if model_type in WITHOUT_LORA:
        with pytest.raises(ValueError, match=r"adapter does not fit .*Mamba.*out_proj"):
            SentenceEncoder.from_pretrained(folder, adapter=settings)
        return
    bare = SentenceEncoder.from_pretrained(folder, max_length=LENGTH).eval().encode(TEXTS)
    torch.manual_seed(0)  # the adapter's start is random, and so is how much rounding it brings
    encoder = SentenceEncoder.from_pretrained(folder, max_length=LENGTH, adapter=settings).eval()
    vectors = encoder.encode(TEXTS)
    scale = abs(vectors).max()
    assert abs(vectors - bare).max() > 1e-2 * scale
    if model_type == "bart":  # no library loads its encoder alone, so it has no merged export
        return
    (tmp_path / "merged").mkdir()
    write_merged(encoder, tmp_path / "merged")
    read = SentenceEncoder.from_pretrained(str(tmp_path / "merged"), max_length=LENGTH).eval()
    np.testing.assert_allclose(read.encode(TEXTS), vectors, atol=1e-5 * scale)

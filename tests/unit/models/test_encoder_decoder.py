"""Encoders of encoder-decoders, against the library's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import PrefixTuningConfig
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from transformers import (
    AutoModel,
    AutoModelForTextEncoding,
    PreTrainedModel,
    T5GemmaConfig,
)

from sts_lightning.core.errors import CheckpointError, ConfigError
from sts_lightning.export.sentence_transformers import write_sentence_transformers
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import character_tokenizer
from tests.support.exports import stored_again
from tests.support.families import SIZES, tiny, write
from tests.support.sentences import LOWER_CASE

FAMILIES = pytest.mark.parametrize(
    ("model_type", "settings"),
    [
        ("t5", {}),
        ("mt5", {}),
        ("umt5", {}),
        ("bart", {}),
        ("mbart", {"scale_embedding": True}),
        ("pegasus", {"scale_embedding": True}),
        ("m2m_100", {"scale_embedding": True}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)


def in_double(folder: str, whole: PreTrainedModel, **settings: Any) -> SentenceEncoder:
    """The encoder of a folder; it and the model that was saved there then compute in float64.

    In float32 the order of a sum, which depends on the processor, would show in the sixth digit.
    """
    whole.double()
    return SentenceEncoder.from_pretrained(folder, **settings).eval().double()


def reference(encoder: PreTrainedModel) -> torch.Tensor:
    """Mean of the last hidden state, one sentence at a time."""
    tokenizer = character_tokenizer()
    vectors = []
    for sentence in LOWER_CASE:
        ids = tokenizer(sentence, return_tensors="pt", return_token_type_ids=False)
        vectors.append(encoder(**ids).last_hidden_state[0].mean(dim=0))
    return torch.stack(vectors)


def close(found: np.ndarray, expected: torch.Tensor, atol: float = 5e-7) -> None:
    """Pooled vectors are in float32, whatever the model computes in."""
    size = float(expected.detach().abs().max())
    np.testing.assert_allclose(found, expected.detach().numpy(), atol=atol * max(1.0, size))


@FAMILIES
def test_vectors_are_those_of_the_encoder(model_type: str, settings: dict[str, Any], tmp_path: Path) -> None:
    whole = tiny(model_type, **settings)
    encoder = in_double(write(whole, tmp_path), whole)
    assert encoder.dimension == 32
    assert not any("decoder" in name for name, _ in encoder.named_parameters())
    close(encoder.encode(LOWER_CASE, chunk_tokens=10_000), reference(whole.get_encoder()))


def test_a_layer_below_and_the_first_and_last(tmp_path: Path) -> None:
    for model_type in ("t5", "bart"):
        whole = tiny(model_type)
        folder = write(whole, tmp_path / model_type)
        ids = character_tokenizer()("a dog", return_tensors="pt", return_token_type_ids=False)
        below = in_double(folder, whole, layer=-2)
        with torch.no_grad():
            hidden = whole.get_encoder()(**ids, output_hidden_states=True).hidden_states
        close(below.encode(["a dog"])[0], hidden[-2][0].mean(dim=0))
        both = in_double(folder, whole, pooling="first_last_mean")
        close(both.encode(["a dog"])[0], ((hidden[1] + hidden[-1]) / 2)[0].mean(dim=0))
        with pytest.raises(ValueError, match="must lie between -2 and -1"):
            SentenceEncoder.from_pretrained(folder, layer=-3)


@pytest.mark.parametrize("model_type", ["t5", "mt5", "umt5"])
def test_a_folder_without_decoder(model_type: str, tmp_path: Path) -> None:
    write(tiny(model_type), tmp_path / "whole")
    alone = AutoModelForTextEncoding.from_pretrained(tmp_path / "whole").eval()
    folder = write(alone, tmp_path / "alone")
    assert not any("decoder" in name for name in load_file(Path(folder) / "model.safetensors"))
    close(in_double(folder, alone).encode(LOWER_CASE), reference(alone))


@pytest.mark.parametrize(
    ("model_type", "lost"), [("t5", "encoder.final_layer_norm"), ("bart", "encoder.layers.1.fc1")]
)
def test_a_missing_weight_of_the_encoder_is_named(model_type: str, lost: str, tmp_path: Path) -> None:
    folder = Path(write(tiny(model_type), tmp_path))
    weights = load_file(folder / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if not name.startswith((lost, "decoder"))}
    assert len(kept) < len(weights)
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError, match=rf"lacks [12] weights of .*{lost}"):
        SentenceEncoder.from_pretrained(str(folder))


def test_a_folder_of_the_bare_encoder_is_read(tmp_path: Path) -> None:
    half = tiny("bart").get_encoder()
    vectors = SentenceEncoder.from_pretrained(write(half, tmp_path)).encode(LOWER_CASE)
    close(vectors, reference(half), atol=1e-6)


def test_sentence_transformers_reads_t5_and_has_no_form_for_bart(tmp_path: Path) -> None:
    for model_type in ("t5", "bart"):
        encoder = SentenceEncoder.from_pretrained(write(tiny(model_type), tmp_path / model_type)).eval()
        vectors, folder = encoder.encode(LOWER_CASE), tmp_path / f"{model_type}-st"
        folder.mkdir()
        if model_type == "bart":
            with pytest.raises(ConfigError, match=r"BartEncoder.*only beside a decoder"):
                write_sentence_transformers(encoder, folder)
        else:
            write_sentence_transformers(encoder, folder)
            read = SentenceTransformer(str(folder), device="cpu").encode(LOWER_CASE)
            np.testing.assert_allclose(read, vectors, atol=1e-5)


def test_a_prefix_that_would_have_no_effect(tmp_path: Path) -> None:
    prefix = PrefixTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=3)
    with pytest.raises(ValueError, match=r"adapter does not fit T5EncoderModel.*past_key_values"):
        SentenceEncoder.from_pretrained(write(tiny("t5"), tmp_path), adapter=prefix)


def test_denoising_needs_positions(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"denoise 'pad'.*position_ids.*BartEncoder"):
        SentenceEncoder.from_pretrained(
            write(tiny("bart"), tmp_path), template="{sentence} is {mask}", denoise="pad"
        )


def test_a_configuration_of_two_halves(tmp_path: Path) -> None:
    """T5Gemma's encoder has a configuration of its own inside that of the model."""
    half = {
        **{key: SIZES[key] for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "head_dim")},
        **{key: SIZES[key] for key in ("num_attention_heads", "num_key_value_heads")},
        "vocab_size": len(character_tokenizer()),
        "query_pre_attn_scalar": 16,
        "sliding_window": 8,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
    }
    whole = AutoModel.from_config(T5GemmaConfig(encoder=half, decoder=half, vocab_size=half["vocab_size"]))
    encoder = SentenceEncoder.from_pretrained(write(whole.eval(), tmp_path / "base"), max_length=64).eval()
    vectors = encoder.encode(LOWER_CASE)  # in float32: the library's own masks are nan in float64
    close(vectors, reference(whole.get_encoder()), atol=1e-6)
    assert "T5GemmaEncoder" in str(stored_again(encoder, tmp_path / "model"))

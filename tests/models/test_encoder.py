from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from sts_lightning.errors import CheckpointError, ConfigError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.pooling import POOLINGS, Pooling
from sts_lightning.models.tiny import tiny_bert

SENTENCES = ["a b", "a much longer sentence than that", "short", "of middling length", "x", "short"]


def gradients(encoder: SentenceEncoder, chunk_tokens: int) -> dict[str, torch.Tensor]:
    encoder.zero_grad()
    vectors = encoder(encoder.prepare(chunk_tokens)(SENTENCES))
    (vectors * torch.arange(vectors.numel()).reshape(vectors.shape).cos()).sum().backward()
    return {name: p.grad.clone() for name, p in encoder.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("pooling", POOLINGS)
def test_chunked_vectors_and_gradients_equal_unchunked_ones(pooling: Pooling) -> None:
    template = "{sentence} is {mask}" if pooling == "mask_token" else None
    encoder = tiny_bert(dropout=0.0, pooling=pooling, template=template)
    one, many = (encoder(encoder.prepare(budget)(SENTENCES)) for budget in (10**6, 40))
    torch.testing.assert_close(one, many, atol=1e-6, rtol=1e-5)
    whole, chunked = gradients(encoder, 10**6), gradients(encoder, 40)
    assert whole.keys() == chunked.keys()
    for name, gradient in whole.items():
        torch.testing.assert_close(chunked[name], gradient, atol=1e-5, rtol=1e-4)


def test_gradient_of_the_shared_look_up_equals_one_look_up_a_chunk() -> None:
    encoder = tiny_bert(dropout=0.0)
    shared = gradients(encoder, 40)
    encoder._takes_embeddings = False
    for name, gradient in gradients(encoder, 40).items():
        torch.testing.assert_close(shared[name], gradient, atol=1e-6, rtol=1e-5)


def test_encode_equals_one_by_one(encoder: SentenceEncoder) -> None:
    together = encoder.encode(SENTENCES, chunk_tokens=30)
    assert together.dtype == np.float32
    singly = np.concatenate([encoder.encode([sentence]) for sentence in SENTENCES])
    np.testing.assert_allclose(together, singly, atol=1e-6)
    np.testing.assert_array_equal(together[2], together[5])


def test_encode_leaves_mode_threads_and_randomness_alone() -> None:
    encoder = tiny_bert(dropout=0.5).train()
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    first, second = encoder.encode(SENTENCES, chunk_tokens=20), encoder.encode(SENTENCES, chunk_tokens=20)
    np.testing.assert_array_equal(first, second)  # no dropout
    assert encoder.training
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


def test_encode_edge_cases(encoder: SentenceEncoder) -> None:
    assert encoder.encode([]).shape == (0, 32)
    with pytest.raises(TypeError, match="list of sentences"):
        encoder.encode("one string")


def test_bfloat16_is_near_float32() -> None:
    full, half = tiny_bert().encode(SENTENCES), tiny_bert().set_precision("bf16-true").encode(SENTENCES)
    assert half.dtype == np.float32
    np.testing.assert_allclose(full, half, atol=0.1)
    assert not np.array_equal(full, half)


def test_pooling_and_template_must_fit() -> None:
    with pytest.raises(ConfigError, match="needs a template"):
        tiny_bert(pooling="mask_token")
    with pytest.raises(ConfigError, match="exceeds the 512 positions"):
        tiny_bert(max_length=1000)


def save_tiny(folder: Path) -> SentenceEncoder:
    encoder = tiny_bert(dropout=0.0, weights_seed=3).eval()
    encoder.backbone.save_pretrained(folder)
    encoder.tokenizer.tokenizer.save_pretrained(folder)
    return encoder


def test_local_folder_gives_the_same_vectors(tmp_path: Path) -> None:
    saved = save_tiny(tmp_path)
    loaded = SentenceEncoder.from_pretrained(str(tmp_path), max_length=64)
    assert next(loaded.parameters()).dtype == torch.float32
    np.testing.assert_allclose(loaded.encode(SENTENCES), saved.encode(SENTENCES), atol=1e-6)


def test_half_precision_files_load_in_float32(tmp_path: Path) -> None:
    encoder = save_tiny(tmp_path)
    encoder.backbone.half().save_pretrained(tmp_path)
    loaded = SentenceEncoder.from_pretrained(str(tmp_path))
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float32}


def test_missing_weights_are_an_error(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    save_tiny(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    save_file(
        {name: w for name, w in weights.items() if "layer.1" not in name}, tmp_path / "model.safetensors"
    )
    with pytest.raises(CheckpointError, match=r"lacks \d+ weights"):
        SentenceEncoder.from_pretrained(str(tmp_path))


def test_only_safetensors_are_loaded(tmp_path: Path) -> None:
    encoder = save_tiny(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(encoder.backbone.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="other formats are not loaded"):
        SentenceEncoder.from_pretrained(str(tmp_path))


def test_model_settings_are_applied_and_checked(tmp_path: Path) -> None:
    save_tiny(tmp_path)
    loaded = SentenceEncoder.from_pretrained(str(tmp_path), config={"hidden_dropout_prob": 0.25})
    assert loaded.backbone.embeddings.dropout.p == 0.25
    with pytest.raises(ConfigError, match="no setting hidden_droput"):
        SentenceEncoder.from_pretrained(str(tmp_path), config={"hidden_droput": 0.25})


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot load"):
        SentenceEncoder.from_pretrained(str(tmp_path))

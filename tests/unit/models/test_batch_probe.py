"""A sentence's vector does not depend on its batch: each model is tried."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from sts_lightning.core.errors import ConfigError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import character_tokenizer
from tests.support.families import COMMON, family, tiny
from tests.support.sentences import LOWER_CASE

TEXTS = [*LOWER_CASE, "", "a long row " * 20]


@torch.no_grad()
def plain_loop(backbone: PreTrainedModel, max_length: int) -> np.ndarray:
    """Mean of the last hidden state of one text at a time, by the library alone."""
    tokenizer = character_tokenizer()
    vectors = []
    for text in TEXTS:
        ids = tokenizer(
            text, return_tensors="pt", truncation=True, max_length=max_length, return_token_type_ids=False
        )
        vectors.append(backbone(**ids).last_hidden_state[0].mean(dim=0).numpy())
    return np.stack(vectors)


@pytest.mark.parametrize("model_type", COMMON)
def test_a_family_gives_the_vectors_of_a_plain_loop(model_type: str) -> None:
    """Whatever is in the batch; and embeddings that are looked up apart are those that the model looks up."""
    backbone = family(model_type)
    expected = plain_loop(backbone, 64)
    scale = abs(expected).max()
    encoder = SentenceEncoder(backbone, character_tokenizer(), max_length=64).eval()
    assert encoder._takes_embeddings
    for chunk_tokens in (70, 10_000):
        found = encoder.encode(TEXTS, chunk_tokens=chunk_tokens)
        np.testing.assert_allclose(found, expected, atol=1e-6 * scale)
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    np.testing.assert_allclose(alone, expected, atol=1e-6 * scale)


@pytest.mark.parametrize("model_type", ["fnet", "convbert"])
def test_a_family_that_does_not_ignore_padding_is_rejected(model_type: str) -> None:
    with pytest.raises(ConfigError, match="does not ignore padding"):
        SentenceEncoder(tiny(model_type), character_tokenizer(), max_length=64)


def test_a_model_that_fails_on_a_batch_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = tiny("roformer")
    whole = backbone.forward

    def one_row(input_ids: Any = None, **kwargs: Any) -> Any:
        if len(input_ids) > 1:
            raise RuntimeError("one row only")
        return whole(input_ids=input_ids, **kwargs)

    monkeypatch.setattr(backbone, "forward", one_row)
    with pytest.raises(ConfigError, match=r"RoFormerModel.*one row only"):
        SentenceEncoder(backbone, character_tokenizer(), max_length=64)


def test_the_probe_leaves_the_random_state_alone() -> None:
    state = torch.get_rng_state()
    backbone = tiny("roformer").train()
    SentenceEncoder(backbone, character_tokenizer(), max_length=64)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_tokenizer_that_pads_on_the_left() -> None:
    """Positions of BERT's family would shift by the padding."""
    tokenizer = character_tokenizer()
    tokenizer.padding_side = "left"
    encoder = SentenceEncoder(tiny("bert"), tokenizer, max_length=64).eval()
    alone = np.concatenate([encoder.encode([sentence]) for sentence in LOWER_CASE])
    np.testing.assert_allclose(encoder.encode(LOWER_CASE, chunk_tokens=10_000), alone, atol=1e-5)

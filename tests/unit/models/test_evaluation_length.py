"""The length at which evaluation cuts a sentence, apart from that of training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from peft import PrefixTuningConfig
from transformers import RobertaConfig, RobertaModel

from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import character_tokenizer, tiny_bert

LONG = "abcdefgh " * 100  # 800 tokens, one a letter


def row(encoder: SentenceEncoder, training: bool) -> list[int]:
    found = encoder.prepare(10_000, training)([[LONG]], [None]).chunks[0]["input_ids"][0]
    ids: list[int] = found.tolist()
    return ids


def test_evaluation_reads_what_training_cuts() -> None:
    encoder = tiny_bert(dropout=0.0, max_length=10).eval()
    cut = encoder.encode([LONG])
    assert np.array_equal(cut, encoder.encode([LONG[:8]]))
    encoder.set_evaluation(max_length=20)
    assert len(row(encoder, training=True)) == 10
    assert len(row(encoder, training=False)) == 20
    assert abs(encoder.encode([LONG]) - cut).max() > 1e-4


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, 512),
        ({"template": "ab {sentence} c"}, 512 - 5),
        ({"adapter": PrefixTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=7)}, 512 - 7),
        ({"limit": 100}, 100),
        ({"limit": 5000}, 512),
    ],
)
def test_the_models_own_limit(settings: dict[str, Any], sentence: int) -> None:
    """The 512 positions of the model hold template, special tokens and trained prefix too."""
    encoder = tiny_bert(max_length=10, **settings).eval()
    encoder.set_evaluation(max_length=None)
    assert encoder.tokenizer.lengths.eval == sentence
    added = 5 if "template" in settings else 0
    assert len(row(encoder, training=False)) == sentence + added
    assert np.isfinite(encoder.encode([LONG])).all()


@pytest.mark.parametrize(
    ("settings", "training", "evaluation"),
    [
        ({}, 256, 512),
        ({"row_limit": 300}, 256, 300),
        ({"row_limit": 300, "limit": 200}, 200, 200),
        ({"row_limit": 100, "template": "ab {sentence} c"}, 95, 95),
        ({"row_limit": 9000}, 256, 512),
    ],
)
def test_without_a_length_the_model_is_read_as_far_as_it_is_meant(
    settings: dict[str, Any], training: int, evaluation: int
) -> None:
    encoder = tiny_bert(max_length=None, **settings)
    assert (encoder.tokenizer.lengths.train, encoder.tokenizer.lengths.eval) == (training, evaluation)


def test_a_limit_that_leaves_no_room() -> None:
    with pytest.raises(ValueError, match="max_length must be at least 3, got 1"):
        tiny_bert(max_length=None, row_limit=6, template="ab {sentence} c")


def test_positions_of_robertas_family() -> None:
    """Its positions count from after the padding index, so two of them are not for tokens."""
    tokenizer = character_tokenizer()
    config = RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=50,
        pad_token_id=1,
    )
    encoder = SentenceEncoder(RobertaModel(config, add_pooling_layer=False), tokenizer, max_length=10).eval()
    encoder.set_evaluation(max_length=None)
    assert encoder.tokenizer.lengths.eval == 48
    assert encoder.encode([LONG]).shape == (1, 16)


@pytest.mark.parametrize("length", [2, 513])
def test_a_length_that_does_not_fit(length: int) -> None:
    encoder = tiny_bert(max_length=10)
    with pytest.raises(ValueError, match=f"max_length must be at least 3 and at most 512, got {length}"):
        encoder.set_evaluation(max_length=length)

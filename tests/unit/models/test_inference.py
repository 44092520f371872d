"""Embedding without gradient, in threads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import tiny_bert
from tests.support.families import tiny, write
from tests.support.sentences import SENTENCES


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """Threads that torch may use, whatever the tests were started with."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_encode_equals_one_by_one(encoder: SentenceEncoder, threads: int) -> None:
    together = encoder.encode(SENTENCES, chunk_tokens=30)
    assert together.dtype == np.float32
    singly = np.concatenate([encoder.encode([sentence]) for sentence in SENTENCES])
    np.testing.assert_allclose(together, singly, atol=1e-6)
    np.testing.assert_array_equal(together[2], together[5])


def test_a_loaded_encoder_is_in_evaluation_mode_and_stays_there(tmp_path: Path) -> None:
    """Its vectors are those of transformers, before and after `encode`."""
    folder = write(tiny("bert"), tmp_path)
    encoder = SentenceEncoder.from_pretrained(folder, pooling="cls")
    rows = encoder.tokenizer.rows(SENTENCES[:1], 512)
    before = encoder(rows).detach()
    encoder.encode(SENTENCES)
    reference = AutoModel.from_pretrained(folder)
    with torch.no_grad():
        expected = reference(**AutoTokenizer.from_pretrained(folder)(SENTENCES[:1], return_tensors="pt"))
    for vectors in (before, encoder(rows).detach()):
        torch.testing.assert_close(vectors, expected.last_hidden_state[:, 0])


@pytest.mark.parametrize("fails", [False, True])
def test_encode_gives_each_part_its_own_mode_back(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = tiny_bert(dropout=0.5).train()
    encoder.backbone.embeddings.eval()  # by hand, so that it has no dropout
    modes = {name: part.training for name, part in encoder.named_modules()}
    if fails:
        monkeypatch.setattr(encoder.backbone.encoder, "forward", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError) if fails else contextlib.nullcontext():
        encoder.encode(SENTENCES)
    assert {name: part.training for name, part in encoder.named_modules()} == modes
    assert not encoder.backbone.embeddings.dropout.training and encoder.backbone.encoder.training


def test_encode_leaves_mode_threads_and_randomness_alone(threads: int) -> None:
    encoder = tiny_bert(dropout=0.5).train()
    state = torch.get_rng_state()
    first, second = encoder.encode(SENTENCES, chunk_tokens=20), encoder.encode(SENTENCES, chunk_tokens=20)
    np.testing.assert_array_equal(first, second)  # no dropout
    assert encoder.training
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)

"""Embedding without gradient, in threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import tiny_bert
from tests.sentences import SENTENCES


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


def test_encode_leaves_mode_threads_and_randomness_alone(threads: int) -> None:
    encoder = tiny_bert(dropout=0.5).train()
    state = torch.get_rng_state()
    first, second = encoder.encode(SENTENCES, chunk_tokens=20), encoder.encode(SENTENCES, chunk_tokens=20)
    np.testing.assert_array_equal(first, second)  # no dropout
    assert encoder.training
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)

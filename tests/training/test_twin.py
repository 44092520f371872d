from __future__ import annotations

import torch

from sts_lightning.data.collate import Batch
from sts_lightning.models.example_dropout import row_keys
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.training.twin import TwinEncoder
from tests.training.steps import step_alone

TEXTS = ["a dog runs", "x", "two cats on a mat"]


def test_it_starts_equal_and_is_independent() -> None:
    encoder = tiny_bert(dropout=0.0)
    twin = TwinEncoder()
    twin.connect(encoder)
    rows = encoder.prepare(1000, training=True)([TEXTS], [None])
    pooled = encoder.pool_rows(rows)
    step = step_alone(encoder, Batch(rows, 1, None, 3), pooled, pooled[None])
    vectors = twin(step)
    torch.testing.assert_close(vectors, pooled)
    vectors.square().sum().backward()
    assert all(parameter.grad is not None for parameter in twin.parameters())
    assert all(parameter.grad is None for parameter in encoder.parameters())
    shared = {id(p) for p in twin.parameters()} & {id(p) for p in encoder.parameters()}
    assert not shared


def test_dropout_of_an_example_is_that_of_any_chunk() -> None:
    encoder = tiny_bert(dropout=0.3).train()
    twin = TwinEncoder()
    twin.connect(encoder)
    found = []
    for chunk_tokens in (1000, 8):
        rows = encoder.prepare(chunk_tokens, training=True)([TEXTS], [None])
        batch = Batch(rows, 1, None, 3)
        keys = row_keys(0, 0, 0, 1, range(3))
        pooled = encoder.pool_rows(rows, dropout_keys=keys)
        found.append(twin(step_alone(encoder, batch, pooled, pooled[None], example_dropout=True)))
        assert not torch.allclose(found[-1], pooled, atol=1e-3)  # masks of its own
        assert not torch.allclose(
            twin(step_alone(encoder, batch, pooled, pooled[None])), found[-1], atol=1e-3
        )
    torch.testing.assert_close(*found)


def test_it_reads_the_first_view() -> None:
    encoder = tiny_bert(dropout=0.0)
    twin = TwinEncoder()
    twin.connect(encoder)
    rows = encoder.prepare(40, training=True)([TEXTS, TEXTS[::-1]], [None, None])
    pooled = encoder.pool_rows(rows)
    views = pooled.unflatten(0, (2, -1))
    step = step_alone(encoder, Batch(rows, 2, None, 3), pooled, views)
    torch.testing.assert_close(twin(step), views[0])

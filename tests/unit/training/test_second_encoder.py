from __future__ import annotations

import torch

from sts_lightning.data.collate import Batch
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.training.auxiliary.second_encoder import SecondEncoder
from tests.support.training_steps import step_alone

TEXTS = ["a dog runs", "x", "two cats on a mat"]


def test_it_starts_equal_and_is_independent() -> None:
    encoder = tiny_bert(dropout=0.0)
    second = SecondEncoder()
    second.connect(encoder)
    rows = encoder.prepare(1000, training=True)([TEXTS], [None])
    pooled = encoder.pool_rows(rows)
    step = step_alone(encoder, Batch(rows, 1, None, 3), pooled, pooled[None])
    vectors = second(step)
    torch.testing.assert_close(vectors, pooled)
    vectors.square().sum().backward()
    assert all(parameter.grad is not None for parameter in second.parameters())
    assert all(parameter.grad is None for parameter in encoder.parameters())
    shared = {id(p) for p in second.parameters()} & {id(p) for p in encoder.parameters()}
    assert not shared


def test_it_reads_the_first_view() -> None:
    encoder = tiny_bert(dropout=0.0)
    second = SecondEncoder()
    second.connect(encoder)
    rows = encoder.prepare(40, training=True)([TEXTS, TEXTS[::-1]], [None, None])
    pooled = encoder.pool_rows(rows)
    views = pooled.unflatten(0, (2, -1))
    step = step_alone(encoder, Batch(rows, 2, None, 3), pooled, views)
    torch.testing.assert_close(second(step), views[0])

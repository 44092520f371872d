from __future__ import annotations

import pytest
import torch

from sts_lightning.core.choices import Denoise
from sts_lightning.data.collate import Batch
from sts_lightning.papers.auxiliary.momentum_queue import MomentumQueue
from sts_lightning.papers.auxiliary.second_encoder import SecondEncoder
from sts_lightning.testing.tiny_bert import tiny_bert
from tests.support.training_steps import step_alone

TEXTS = ["a dog runs", "x", "two cats on a mat"]


def test_it_starts_equal_and_is_independent() -> None:
    encoder = tiny_bert(dropout=0.0)
    second = SecondEncoder()
    second.connect(encoder)
    rows = encoder.prepare(1000, training=True)([TEXTS], [None])
    pooled = encoder(rows)
    step = step_alone(encoder, Batch(rows, 1, None, 3), pooled)
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
    pooled = encoder(rows)
    views = pooled.unflatten(0, (2, -1))
    step = step_alone(encoder, Batch(rows, 2, None, 3), pooled)
    torch.testing.assert_close(second(step), views[0])


@pytest.mark.parametrize("denoise", ["shift", "pad"])
def test_it_subtracts_the_bare_templates_too(denoise: Denoise) -> None:
    """As the encoder does, so that all vectors lie in one space; the same for the queue of negatives."""
    encoder = tiny_bert(
        dropout=0.0, template="{sentence} means {mask}", pooling="mask_token", denoise=denoise
    )
    second, queue = SecondEncoder(), MomentumQueue(3, 0.9)
    for auxiliary in (second, queue):
        auxiliary.connect(encoder)
    rows = encoder.prepare(60, training=True)([TEXTS, TEXTS[::-1]], [None, None])
    pooled = encoder(rows)
    step = step_alone(encoder, Batch(rows, 2, None, 3), pooled)
    queue.train().update(step)
    first = pooled.unflatten(0, (2, -1))[0]
    for vectors in (second(step), queue.negatives()):
        torch.testing.assert_close(vectors, first)
        torch.testing.assert_close(torch.cosine_similarity(vectors, first), torch.ones(3))

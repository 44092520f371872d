from __future__ import annotations

import numpy as np
import pytest
import torch

from sts_lightning.core.errors import ConfigError
from sts_lightning.core.hardware import ENCODING_CHUNKS
from sts_lightning.papers.rank_monitor import _check_views, _view_metrics, dropout_views
from sts_lightning.testing.tiny_bert import tiny_bert

SENTENCES = ["a dog runs", "the cat sleeps on the mat", "birds", "two men talk about the weather today"]


def test_views_differ_by_dropout_around_the_vector_without() -> None:
    encoder = tiny_bert(dropout=0.05).eval()
    first, second = dropout_views(encoder, SENTENCES)
    plain = encoder.encode(SENTENCES)
    assert first.shape == second.shape == plain.shape
    assert not np.allclose(first, second)
    for view in (first, second):
        cosines = (view * plain).sum(1) / np.linalg.norm(view, axis=1) / np.linalg.norm(plain, axis=1)
        assert cosines.min() > 0.8


def test_views_are_those_of_evaluation_where_dropout_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """Order and padding of the chunks are undone."""
    monkeypatch.setitem(ENCODING_CHUNKS, "cpu", 8)
    encoder = tiny_bert(dropout=0.0).train()
    for view in dropout_views(encoder, SENTENCES):
        np.testing.assert_allclose(view, encoder.encode(SENTENCES), atol=1e-5)


def test_random_numbers_and_modes_are_left_alone() -> None:
    encoder = tiny_bert(dropout=0.1).train()
    torch.manual_seed(3)
    torch.rand(5)
    before = torch.get_rng_state()
    one = dropout_views(encoder, SENTENCES)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(module.training for module in encoder.modules())
    torch.rand(7)
    two = dropout_views(encoder.eval(), SENTENCES)
    assert not any(module.training for module in encoder.modules())
    np.testing.assert_array_equal(one, two)


def test_both_definitions() -> None:
    """Against sums over all pairs, one after the other."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 6, 4))
    u, v = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (first, second))
    size, tau = len(u), 0.05
    sums = [np.log(sum(np.exp(u[i] @ v[j] / tau) for j in range(size) if j != i)) for i in range(size)]
    potentials = [np.exp(-2 * np.sum((u[i] - u[j]) ** 2)) for i in range(size) for j in range(size) if i != j]
    assert _view_metrics(first, second) == pytest.approx(
        {
            "rank/dropout_alignment": -np.mean([u[i] @ v[i] / tau for i in range(size)]),
            "rank/dropout_uniformity": np.mean(sums),
            "rank/dropout_sphere_alignment": np.mean([np.sum((u[i] - v[i]) ** 2) for i in range(size)]),
            "rank/dropout_sphere_uniformity": np.log(np.mean(potentials)),
        }
    )


def test_a_model_without_dropout_is_named() -> None:
    encoder = tiny_bert(dropout=0.0)
    with pytest.raises(ConfigError) as caught:
        _check_views(encoder, *dropout_views(encoder, SENTENCES))
    assert caught.value.key == "callbacks.rank_monitor.views"

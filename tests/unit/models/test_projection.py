from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertConfig

from sts_lightning.models.pooling import Projection, make_projection
from sts_lightning.testing.tiny_bert import tiny_bert


@pytest.mark.parametrize("kind", ["train", "batch_norm"])
def test_layers_start_at_the_scale_of_the_backbone(kind: Projection) -> None:
    layers = make_projection(BertConfig(hidden_size=64, initializer_range=0.3), kind)
    for layer in layers:
        if isinstance(layer, nn.Linear):
            assert layer.weight.std().item() == pytest.approx(0.3, rel=0.1)
            assert layer.bias is None or not layer.bias.any()


def test_batch_norms_by_hand() -> None:
    layers = make_projection(BertConfig(hidden_size=4, initializer_range=1.0), "batch_norm")
    vectors = torch.randn(10, 4, generator=torch.Generator().manual_seed(0))

    def normed(x: np.ndarray) -> np.ndarray:
        return (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5)

    weights = [layer.weight.detach().numpy() for layer in layers if isinstance(layer, nn.Linear)]
    assert [weight.shape for weight in weights] == [(8, 4), (4, 8)]
    expected = normed(np.maximum(0, normed(vectors.numpy() @ weights[0].T)) @ weights[1].T)
    np.testing.assert_allclose(layers(vectors).detach().numpy(), expected, atol=1e-5)
    assert sum(parameter.numel() for parameter in layers.parameters()) == 4 * 8 * 2 + 2 * 8


def test_the_batch_reaches_no_vector_in_evaluation() -> None:
    encoder = tiny_bert(dropout=0.0, projection="batch_norm")
    alone = encoder.encode(["a dog"])
    np.testing.assert_allclose(encoder.encode(["a dog", "two cats on a mat"])[:1], alone, atol=1e-6)
    np.testing.assert_allclose(alone, tiny_bert(dropout=0.0).encode(["a dog"]), atol=1e-6)
    rows = encoder.tokenizer.rows(["a dog", "two cats", "it"], 512)
    projected = encoder.train()(rows)
    torch.testing.assert_close(projected.mean(dim=0), torch.zeros(32), atol=1e-5, rtol=0)

from __future__ import annotations

import torch

from sts_lightning.papers.auxiliary.random_weights import random_weights
from sts_lightning.testing.tiny_bert import tiny_bert


def test_another_start_of_the_same_shape() -> None:
    backbone = tiny_bert(weights_seed=3).plain_backbone
    before = {name: weight.clone() for name, weight in backbone.state_dict().items()}
    state = torch.get_rng_state()
    first, second = random_weights(backbone).state_dict(), random_weights(backbone).state_dict()
    assert torch.equal(torch.get_rng_state(), state)
    assert first.keys() == before.keys()
    for name, weight in before.items():
        assert torch.equal(first[name], second[name])
        assert torch.equal(backbone.state_dict()[name], weight)
        assert first[name].shape == weight.shape
    name = "encoder.layer.0.output.dense.weight"
    assert not torch.equal(first[name], before[name])

"""Weights divided among processes; here one process, several are in tests/scenarios/test_compositions.py."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import distributed, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading import load_part
from sts_lightning.models.quantization import is_quantised
from sts_lightning.models.sharding import (
    divided,
    gathered,
    is_divided,
    is_sharded,
    load_weights,
    outermost_layers,
    shard_backbone,
)
from sts_lightning.testing.tiny_bert import character_tokenizer, tiny_bert
from sts_lightning.testing.tiny_decoders import tiny_mistral
from tests.models.families import FAMILIES, family
from tests.sentences import TEXTS


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[DeviceMesh]:
    """A group of this process alone."""
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    distributed.destroy_process_group()


def test_the_layers_are_those_of_the_outermost_lists() -> None:
    bert = tiny_bert(layers=3)
    assert outermost_layers(bert.backbone) == list(bert.backbone.encoder.layer)
    experts = nn.ModuleList([nn.ModuleDict({"experts": nn.ModuleList([nn.Linear(1, 1)])}) for _ in range(2)])
    assert outermost_layers(nn.Sequential(nn.Linear(1, 1), experts)) == list(experts)


def test_undivided_weights_stay_as_they_are() -> None:
    encoder = tiny_bert()
    assert not is_sharded(encoder)
    state = encoder.state_dict()
    for name, value in gathered(state).items():
        assert value.data_ptr() == state[name].data_ptr()
    value = torch.ones(2)
    assert divided(value, torch.zeros(2)) is value


def test_vectors_and_gradients_stay_the_same(mesh: DeviceMesh) -> None:
    whole = tiny_bert(dropout=0.0).train()
    encoder = copy.deepcopy(whole)
    shard_backbone(encoder.backbone, mesh)
    assert is_sharded(encoder)
    assert all(is_divided(value) for value in encoder.backbone.parameters())
    for sentences in (TEXTS, TEXTS[:1]):
        np.testing.assert_allclose(encoder.encode(sentences), whole.encode(sentences), atol=1e-6)
    for recompute in (False, True):
        for model in (whole, encoder):
            model.zero_grad()
            rows = model.prepare(30, training=True)([TEXTS], [None])
            model(rows, recompute).square().sum().backward()
        own = gathered({name: value.grad for name, value in encoder.named_parameters()})
        for name, value in whole.named_parameters():
            torch.testing.assert_close(own[name], value.grad, msg=name)


def test_4bit_weights_are_divided_with_their_scales_kept(mesh: DeviceMesh) -> None:
    whole = tiny_mistral(quantization="4bit", dtype="float32", hidden_size=64)
    encoder = tiny_mistral(quantization="4bit", dtype="float32", hidden_size=64)
    shard_backbone(encoder.backbone, mesh)
    layers = [module for module in encoder.backbone.modules() if is_quantised(module)]
    assert layers
    assert {layer.weight.dtype for layer in layers} == {torch.uint8}
    assert all(is_divided(layer.weight) for layer in layers)
    for _ in range(2):  # the first pass leaves nothing that the second one would stumble over
        np.testing.assert_allclose(encoder.encode(TEXTS), whole.encode(TEXTS), atol=1e-5)


def test_weights_of_a_checkpoint_are_divided(mesh: DeviceMesh, tmp_path: Path) -> None:
    other = tiny_bert(dropout=0.0, weights_seed=1)
    encoder = tiny_bert(dropout=0.0)
    shard_backbone(encoder.backbone, mesh)
    checkpoint = {"state_dict": {f"encoder.{name}": value for name, value in other.state_dict().items()}}
    load_part(encoder, "encoder.", checkpoint, tmp_path)
    np.testing.assert_allclose(encoder.encode(TEXTS), other.encode(TEXTS), atol=1e-6)
    own = gathered(encoder.state_dict())
    assert all(torch.equal(value, own[name]) for name, value in other.state_dict().items())
    assert set(gathered(encoder.state_dict(), keep=False).values()) == {None}
    load_weights(encoder, {name: torch.zeros_like(value) for name, value in own.items()})
    assert not any(gathered(encoder.state_dict())["backbone.embeddings.LayerNorm.weight"])


@pytest.mark.parametrize("model_type", FAMILIES)
def test_every_family_can_be_divided(model_type: str, mesh: DeviceMesh) -> None:
    encoder = SentenceEncoder(family(model_type), character_tokenizer())
    vectors = encoder.encode(TEXTS, share_prefix=False)
    shard_backbone(encoder.backbone, mesh)
    np.testing.assert_allclose(encoder.encode(TEXTS), vectors, atol=1e-5)

"""Which parts of a training module are divided; whole runs are in tests/scenarios/test_compositions.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from sts_lightning.errors import ConfigError
from sts_lightning.losses.base import Loss
from sts_lightning.models.sharding import is_divided
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.training.module import STSModule
from sts_lightning.training.queue import MomentumQueue
from sts_lightning.training.sharded_module import shard_module
from tests.losses.cases import make


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[DeviceMesh]:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    distributed.destroy_process_group()


def module(loss: Loss) -> STSModule:
    unused: Any = None
    encoder = tiny_bert(projection="train")
    queue = MomentumQueue(encoder, size=4, momentum=0.9)
    return STSModule(encoder, loss, unused, unused, queue=queue)


@pytest.mark.parametrize("loss", ["infonce", "smooth_k2", "sigmoid"])
def test_all_that_trains_is_divided_and_the_copy_too(loss: str, mesh: DeviceMesh) -> None:
    whole = module(make(loss, 32).float())
    shapes = {name: value.shape for name, value in whole.state_dict().items()}
    shard_module(whole, mesh)
    assert all(is_divided(value) for value in whole.parameters() if value.requires_grad)
    assert whole.queue is not None
    assert all(is_divided(value) for value in whole.queue.encoder_copy.backbone.parameters())
    assert {name: value.shape for name, value in whole.state_dict().items()} == shapes


def test_a_frozen_encoder_is_divided_too(mesh: DeviceMesh) -> None:
    whole = module(make("smooth_k2", 32).float())
    whole.encoder.requires_grad_(False)
    shard_module(whole, mesh)
    assert all(is_divided(value) for value in whole.encoder.backbone.parameters())
    assert not any(is_divided(value) for value in whole.encoder.projector.parameters())  # a few weights
    assert all(is_divided(value) for value in whole.loss.parameters())


def test_a_scalar_is_named(mesh: DeviceMesh) -> None:
    loss = make("infonce").float()
    loss.temperature_of_mine = nn.Parameter(torch.tensor(0.05))
    with pytest.raises(ConfigError, match=r"loss\.temperature_of_mine is a scalar.* shape \(1,\)"):
        shard_module(module(loss), mesh)

"""Checkpoints of divided weights are those of one process; several processes are in tests/scenarios."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.core.optimizer import LightningOptimizer
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from sts_lightning.models.sharding import is_divided
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.training.module import STSModule
from sts_lightning.training.optim import make_optimizer
from sts_lightning.training.sharded_module import shard_module
from sts_lightning.training.sharded_strategy import ShardedStrategy
from tests.losses.cases import make
from tests.sentences import TEXTS


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[DeviceMesh]:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    distributed.destroy_process_group()


def trained(mesh: DeviceMesh | None) -> tuple[STSModule, torch.optim.Optimizer]:
    """A module after two steps."""
    unused: Any = None
    module = STSModule(tiny_bert(dropout=0.0), make("smooth_k2", 32).float(), unused, unused)
    if mesh is not None:
        shard_module(module, mesh)
    optimizer = make_optimizer(module, lr=1e-2, weight_decay=0.01, betas=(0.9, 0.999), eps=1e-3, fused=True)
    for _ in range(2):
        optimizer.zero_grad()
        views = module.encoder(module.encoder.prepare(30, training=True)([TEXTS], [None]))
        module.loss(torch.stack([views, views.flip(0)]), torch.linspace(0, 2, len(TEXTS))).backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
    return module, optimizer


def strategy(module: STSModule, optimizer: torch.optim.Optimizer) -> ShardedStrategy:
    made = ShardedStrategy(1)
    made._lightning_module = module
    made.optimizers = [optimizer]
    return made


def test_checkpoints_are_those_of_one_process_and_come_back(mesh: DeviceMesh) -> None:
    whole, plain = trained(None)
    module, optimizer = trained(mesh)
    own = strategy(module, optimizer)
    weights = own.lightning_module_state_dict()
    state = own.optimizer_state(LightningOptimizer(optimizer))
    for found, expected in ((weights, whole.state_dict()), (state, plain.state_dict())):
        _same(found, expected)

    fresh, other = trained(mesh)
    with torch.no_grad():
        for value in fresh.parameters():
            value.zero_()
    other.state.clear()
    back = strategy(fresh, other)
    checkpoint = {"state_dict": weights, "optimizer_states": [state]}
    back.load_model_state_dict(checkpoint)
    back.load_optimizer_state_dict(checkpoint)
    _same(back.lightning_module_state_dict(), weights)
    _same(back.optimizer_state(other), state)
    assert all(is_divided(entry["exp_avg"]) for entry in other.state.values())
    assert back.lightning_restore_optimizer


def _same(found: Any, expected: Any) -> None:
    if isinstance(expected, Tensor):
        assert type(found) is Tensor
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            _same(found[key], value)
    elif isinstance(expected, list):
        for one, two in zip(found, expected, strict=True):
            _same(one, two)
    else:
        assert found == expected

"""Several processes give the gradient of one."""

from __future__ import annotations

import socket
from pathlib import Path

import torch
from torch import Tensor, distributed, nn
from torch.multiprocessing.spawn import spawn

from sts_lightning.core.processes import Shard
from sts_lightning.losses.base import Loss
from sts_lightning.regularizers.global_orthogonal import GlobalOrthogonal
from sts_lightning.regularizers.rank_reduction import RankReduction
from sts_lightning.training.gather import gather_examples
from tests.support.loss_cases import DIMENSION, batch, make

LOSSES = (
    *("infonce", "pearson", "spearman", "cosent", "smooth_k2", "mse", "mixcse", "listnet"),
    *(
        "concordance",
        "rank_kl",
        "pro",
        "bixse",
        "sigmoid",
        "gist",
        "hardness",
        "matryoshka",
        "divided",
    ),
    *("decoupled", "energy"),
)

INPUTS = 3


def problem(stem: str, size: int) -> tuple[nn.Module, Loss, Tensor, Tensor | None]:
    """A linear encoder, a loss and the inputs of a batch."""
    torch.manual_seed(5)
    loss = make(stem)
    encoder = nn.Linear(INPUTS, DIMENSION).double()
    views, labels = batch(loss, size)
    inputs = torch.randn(len(views), size, INPUTS, dtype=torch.float64)
    return encoder, loss, inputs, labels


def value(loss: Loss, views: Tensor, labels: Tensor | None) -> Tensor:
    torch.manual_seed(6)
    ids = torch.arange(views.shape[0] * views.shape[1]).view(views.shape[:2]) % 4  # of the whole batch
    further = {"sentence_ids": ids} if "sentence_ids" in loss.needs.inputs else {}
    total: Tensor = loss(views, labels, **further) + RankReduction(0.3)(views) + GlobalOrthogonal()(views)
    return total


def gradients(stem: str, size: int, shard: Shard) -> dict[str, Tensor]:
    """The mean over processes, as data-parallel training takes it."""
    encoder, loss, inputs, labels = problem(stem, size)
    own = encoder(inputs[:, shard.slice_of(size)])
    value(loss, gather_examples(own, size, shard), labels).backward()
    named = [*encoder.named_parameters("encoder"), *loss.named_parameters("loss")]
    result = {}
    for name, parameter in named:
        grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        if shard.world_size > 1:
            distributed.all_reduce(grad)
        result[name] = grad / shard.world_size
    return result


def work(process: int, processes: int, port: int, folder: str) -> None:
    torch.set_num_threads(1)
    address = f"tcp://localhost:{port}"
    distributed.init_process_group("gloo", init_method=address, rank=process, world_size=processes)
    shard = Shard.current()
    assert shard == Shard(process, processes)
    found = {
        (stem, size): gradients(stem, size, shard)
        for stem in LOSSES
        for size in (6, 5, 2)  # equal shards, unequal ones, and with three processes an empty one
    }
    torch.save(found, Path(folder) / f"{process}.pt")
    distributed.destroy_process_group()


def test_equals_one_process(tmp_path: Path) -> None:
    processes = 3
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    spawn(work, (processes, port, str(tmp_path)), nprocs=processes)
    for process in range(processes):
        for (stem, size), found in torch.load(tmp_path / f"{process}.pt").items():
            expected = gradients(stem, size, Shard())
            for name, grad in expected.items():
                torch.testing.assert_close(
                    found[name], grad, atol=1e-9, rtol=1e-6, msg=f"{stem} {size} {name}"
                )

"""Gathering of the embeddings of a whole batch on every process, with the exact gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed

from sts_lightning.core.processes import Shard


def gather_examples(local: Tensor, count: int, shard: Shard) -> Tensor:
    r"""Gather the embeddings of a whole batch from all processes.

    Every process computes the same loss L of the whole batch. The gradient that it passes on to its own
    embeddings z_p is :math:`W \,\partial L / \partial z_p` for W processes, so that the mean of the gradients
    of all processes, which data-parallel training takes, is that of one process with the whole batch.

    Args:
        local: Embeddings of this process, (V, b, D); b may differ between processes. An empty shard
            embeds one example as a placeholder, which is left out.
        count: Number B of examples on all processes.
        shard: The examples that this process embeds.

    Returns:
        (V, B, D) in the order of the batch.
    """
    if shard.world_size == 1:
        return local
    local = local[:, : shard.size_of(count)]
    gathered: Tensor = _Gather.apply(local, count, shard)  # type: ignore[no-untyped-call]
    return gathered


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, local: Tensor, count: int, shard: Shard) -> Tensor:
        ctx.examples, ctx.scale = shard.slice_of(count), shard.world_size
        sizes = shard.sizes(count)
        padded = local.new_zeros(len(local), max(sizes), local.shape[-1])
        padded[:, : local.shape[1]] = local
        shards = [torch.empty_like(padded) for _ in sizes]
        distributed.all_gather(shards, padded)
        return torch.cat([rows[:, :size] for rows, size in zip(shards, sizes, strict=True)], dim=1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return grad[:, ctx.examples] * ctx.scale, None, None

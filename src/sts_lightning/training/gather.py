"""Gathering of the embeddings of a whole batch on every process, with the exact gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed

from sts_lightning.core.distributed import Shard


def gather_examples(own: Tensor, count: int, shard: Shard, official: bool = False) -> Tensor:
    r"""Gather the embeddings of a whole batch from all processes.

    Every process computes the same loss L of the whole batch. The gradient that it passes on to its own
    embeddings z_p is :math:`W \,\partial L / \partial z_p` for W processes, so that the mean of the gradients
    of all processes, which data-parallel training takes, is that of one process with the whole batch.

    Args:
        own: Embeddings of this process, (V, b, D); b may differ between processes. An empty shard embeds one
            example as a placeholder, which is left out.
        count: Number B of examples on all processes.
        shard: The part of the batch that this process embeds.
        official: Whether to pass on :math:`\partial L / \partial z_p`, 1/W of the gradient, as the code of
            SimCSE and its followers does.

    Returns:
        (V, B, D) in the order of the batch.
    """
    if shard.world_size == 1:
        return own
    own = own[:, : shard.size_of(count)]
    gathered: Tensor = _Gather.apply(own, count, shard, 1 if official else shard.world_size)  # type: ignore[no-untyped-call]
    return gathered


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, count: int, shard: Shard, scale: int) -> Tensor:
        ctx.own, ctx.scale = shard.slice_of(count), scale
        sizes = shard.sizes(count)
        padded = own.new_zeros(len(own), max(sizes), own.shape[-1])
        padded[:, : own.shape[1]] = own
        parts = [torch.empty_like(padded) for _ in sizes]
        distributed.all_gather(parts, padded)
        return torch.cat([part[:, :size] for part, size in zip(parts, sizes, strict=True)], dim=1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        return grad[:, ctx.own] * ctx.scale, None, None, None

"""One look-up of token embeddings for all chunks of a batch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def look_up_once(table: nn.Module, chunks: Sequence[dict[str, Tensor]]) -> list[dict[str, Tensor]]:
    """Look up the token embeddings of all chunks at once.

    The gradient of a look-up is as large as the whole vocabulary; one look-up for each chunk would take
    about a quarter of the time of a small model's step.

    Args:
        table: Embedding table of the model.
        chunks: Padded chunks of token ids.

    Returns:
        ``inputs_embeds`` of each chunk, (rows, length, D).
    """
    ids = [chunk["input_ids"] for chunk in chunks]
    embedded = table(torch.cat([chunk.flatten() for chunk in ids]))
    parts = embedded.split([chunk.numel() for chunk in ids])
    return [{"inputs_embeds": part.unflatten(0, chunk.shape)} for part, chunk in zip(parts, ids, strict=True)]


def takes_gradient(table: nn.Module) -> bool:
    """Return whether a backward pass would reach the table."""
    return torch.is_grad_enabled() and any(parameter.requires_grad for parameter in table.parameters())

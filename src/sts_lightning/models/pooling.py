"""Pooling of the hidden states of a sentence into one vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

Pooling = Literal["cls", "mean", "last_token", "mask_token", "first_last_mean"]
"""How the hidden states of a sentence become one vector.

``cls``: the first token. ``mean``: the mean of all tokens. ``last_token``: the last token.
``mask_token``: the last mask token of the template. ``first_last_mean``: the mean over tokens of the mean
of the first and the last layer, where the first is the first transformer layer, as in SimCSE's current code
(its paper used the static embeddings below it).
"""


def pool(
    pooling: Pooling,
    hidden: Sequence[Tensor],
    attention_mask: Tensor,
    mask_at: Tensor | None = None,
) -> Tensor:
    """Pool one chunk of sentences; padding on either side is ignored.

    Args:
        pooling: Type of pooling.
        hidden: Hidden states, each (N, L, D), the last layer last; ``first_last_mean`` reads index 1
            of a full list that starts with the embeddings.
        attention_mask: 1 for tokens, 0 for padding, (N, L).
        mask_at: Position of each row's mask token that is pooled, (N, 1), for ``mask_token``.

    Returns:
        (N, D) in float32.
    """
    last = hidden[-1]
    length = attention_mask.shape[1]
    positions = torch.arange(length, device=attention_mask.device)
    if pooling == "mean":
        return _mean(last, attention_mask)
    if pooling == "first_last_mean":
        return _mean((hidden[1].float() + last.float()) / 2, attention_mask)
    if pooling == "cls":
        chosen = attention_mask.argmax(dim=1)
    elif pooling == "last_token":
        chosen = (attention_mask * positions).argmax(dim=1)
    else:
        assert mask_at is not None
        chosen = mask_at[:, 0]
    rows = torch.arange(len(chosen), device=chosen.device)
    return last[rows, chosen].float()


def _mean(hidden: Tensor, attention_mask: Tensor) -> Tensor:
    weights = attention_mask.unsqueeze(-1).float()
    return (hidden.float() * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1.0)

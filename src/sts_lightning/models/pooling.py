"""Pooling of the hidden states of a sentence into one vector, and the layers on top of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig

Pooling = Literal["cls", "mean", "last_token", "mask_token", "first_last_mean"]
"""How the hidden states of a sentence become one vector.

``cls``: the first token. ``mean``: the mean of all tokens. ``last_token``: the last token.
``mask_token``: the last mask token of the template. ``first_last_mean``: the mean over tokens of the mean
of the first and the last layer, where the first is the first transformer layer, as in SimCSE's current code
(its paper used the static embeddings below it).
"""

Projection = Literal["none", "train", "always", "batch_norm"]
"""Layers on top of the pooled vector: none; a linear one with tanh, in training alone (``train``) or in
evaluation too (``always``); or a wider network with batch norms, in training alone."""


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
    rows = torch.arange(chosen.shape[0], device=chosen.device)  # len would fix the size of an exported graph
    return last[rows, chosen].float()


def _mean(hidden: Tensor, attention_mask: Tensor) -> Tensor:
    weights = attention_mask.unsqueeze(-1).float()
    return (hidden.float() * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1.0)


def width(config: PretrainedConfig) -> int:
    """Return the size of a backbone's output; in EmbeddingGemma 2 a projection follows the last layer."""
    size: int = config.embedding_dim if config.model_type == "embedding_gemma2_text" else config.hidden_size
    return size


def make_projection(config: PretrainedConfig, projection: Projection) -> nn.Sequential:
    """Build the layers, with the initial scale of the backbone's layers.

    ``batch_norm`` is InfoCSE's: linear to 2 D, batch norm, ReLU, linear to D, batch norm without scale and
    shift, the linear layers without bias (`its code
    <https://github.com/caskcsg/sentemb/blob/5eeec55103c1da738761bf8c6a9c085c6ad1c9a1/InfoCSE/infocse/models_cls_mlm.py#L35-L51>`_).
    Means and variances are over all views of the examples of a process.

    Args:
        config: Configuration of the backbone, with its width D.
        projection: Type of layers, not ``none``.
    """
    size = width(config)
    if projection == "batch_norm":
        layers = nn.Sequential(
            nn.Linear(size, 2 * size, bias=False),
            nn.BatchNorm1d(2 * size),
            nn.ReLU(),
            nn.Linear(2 * size, size, bias=False),
            nn.BatchNorm1d(size, affine=False),
        )
    else:
        layers = nn.Sequential(nn.Linear(size, size), nn.Tanh())
    for layer in layers:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=getattr(config, "initializer_range", 0.02))
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return layers

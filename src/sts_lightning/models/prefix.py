"""The tokens with which all sentences begin, read once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from sts_lightning.models.tokenize import Rows


@dataclass(frozen=True)
class SharedPrefix:
    """What a causal model has computed of a prefix.

    Attributes:
        layers: Keys and values of each layer, each (1, heads, P, size of a head).
    """

    layers: list[tuple[Tensor, Tensor]]

    def cache(self, rows: int) -> DynamicCache:
        """For a batch whose rows go on behind the prefix."""
        cache = DynamicCache()
        for index, (keys, values) in enumerate(self.layers):
            cache.update(keys.expand(rows, -1, -1, -1), values.expand(rows, -1, -1, -1), index)
        return cache


def can_share(backbone: PreTrainedModel) -> bool:
    """Whether keys and values are all that a causal model's later tokens need of earlier ones.

    Recurrent and convolutional layers hand on states besides.
    """
    kinds = set(getattr(backbone.config, "layer_types", None) or ())
    return not getattr(backbone, "_is_stateful", False) and kinds <= {"full_attention", "sliding_attention"}


def split_prefix(
    backbone: Callable[..., Any], depth: int, rows: Rows, device: torch.device
) -> tuple[SharedPrefix | None, Rows]:
    """Compute the prefix that all rows share, and cut it off them.

    The prefix is found in the token ids, so tokens that grow together with the sentence behind them are
    not part of it. No token of a causal model sees what stands behind it, hence what is computed of the
    prefix is the same for all rows, and the vectors are those of whole rows up to rounding.

    Args:
        backbone: A causal model that consists of attention layers.
        depth: Number of its layers.
        rows: Padded on the right.
        device: Where the model is.

    Returns:
        The prefix, and the rows without it; None and the whole rows where there is no prefix, or where the
        model does not hand out the keys and values of all its layers.
    """
    length = _common_length(rows)
    if length == 0:
        return None, rows
    ids = rows.chunks[0]["input_ids"][:1, :length].to(device)
    # A cache of the model's own choice forgets the keys that have left a sliding window, which the tokens
    # next to the prefix still see; the mask of each layer hides from later tokens what they must not see.
    cache: Any = DynamicCache()
    backbone(input_ids=ids, past_key_values=cache, use_cache=True)
    layers = [layer for layer in cache.layers if layer.keys is not None and layer.keys.shape[-2] == length]
    if len(layers) != depth:  # a model that shares keys among layers, or keeps them in a form of its own
        return None, rows
    rest = [{name: values[:, length:] for name, values in chunk.items()} for chunk in rows.chunks]
    return SharedPrefix([(layer.keys, layer.values) for layer in layers]), replace(rows, chunks=rest)


def _common_length(rows: Rows) -> int:
    """How many leading tokens all rows have in common; one token at least is left to each."""
    length = min(int(chunk["attention_mask"].sum(dim=1).min()) for chunk in rows.chunks) - 1
    first = rows.chunks[0]["input_ids"][0, :length]
    for chunk in rows.chunks:
        same = chunk["input_ids"][:, : len(first)].eq(first).all(dim=0)
        first = first[: int(same.long().cumprod(0).sum())]
    return len(first) if sum(len(chunk["input_ids"]) for chunk in rows.chunks) > 1 else 0

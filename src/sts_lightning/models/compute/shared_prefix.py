"""Shared prefix: the tokens that all sentences start with, computed once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from sts_lightning.models.text.chunks import TokenizedBatch, to_device


@dataclass(frozen=True)
class SharedPrefix:
    """Keys and values of a prefix in a causal model.

    Attributes:
        layers: Keys and values of each layer, each (1, heads, P, head size).
    """

    layers: list[tuple[Tensor, Tensor]]

    def cache(self, rows: int) -> DynamicCache:
        """Return the cache of the prefix, expanded to a batch of ``rows`` sequences."""
        cache = DynamicCache()
        for index, (keys, values) in enumerate(self.layers):
            cache.update(keys.expand(rows, -1, -1, -1), values.expand(rows, -1, -1, -1), index)
        return cache


def split_prefix(
    backbone: Any, plain: PreTrainedModel, rows: TokenizedBatch
) -> tuple[SharedPrefix | None, TokenizedBatch]:
    """Compute the prefix that all rows share, and remove it from them.

    The prefix is found in the token ids, so a token that merges the end of the template with the start of a
    sentence is not part of it. In a causal model no token attends to later tokens: the keys and values of
    the prefix are the same for all rows, and the vectors are those of whole rows up to rounding.

    Args:
        backbone: Causal model, with its adapter if any.
        plain: The model without its adapter.
        rows: Batch, padded on the right.

    Returns:
        The prefix, and the batch without it; None and the whole batch if there is no common prefix, or if its
        keys and values are not all that the model needs of it.
    """
    length = _common_length(rows) if _attends_alone(backbone, plain) else 0
    if length == 0:
        return None, rows
    ids = to_device(rows.chunks[0]["input_ids"][:1, :length], plain.device)
    # The model's own choice of cache drops the keys outside a sliding window, to which the tokens next to the
    # prefix still attend; the mask of each layer hides them from later tokens.
    cache: Any = DynamicCache()
    backbone(input_ids=ids, past_key_values=cache, use_cache=True)
    layers = [layer for layer in cache.layers if layer.keys is not None and layer.keys.shape[-2] == length]
    if len(layers) != plain.config.num_hidden_layers:  # keys shared among layers, or kept in another form
        return None, rows
    rest = [{name: values[:, length:] for name, values in chunk.items()} for chunk in rows.chunks]
    return SharedPrefix([(layer.keys, layer.values) for layer in layers]), replace(rows, chunks=rest)


def _attends_alone(backbone: Any, plain: PreTrainedModel) -> bool:
    """Return whether a model has attention layers alone, and no adapter with further keys and values.

    Recurrent and convolutional layers need their states too.
    """
    adapter = getattr(backbone, "active_peft_config", None)
    if adapter is not None and adapter.is_prompt_learning:
        return False
    layer_types = set(getattr(plain.config, "layer_types", None) or ())
    attends = layer_types <= {"full_attention", "sliding_attention"}
    return attends and not getattr(plain, "_is_stateful", False)


def _common_length(rows: TokenizedBatch) -> int:
    """Return the number of leading tokens that all rows share; at least one token is left in each row."""
    length = min(int(chunk["attention_mask"].sum(dim=1).min()) for chunk in rows.chunks) - 1
    first = rows.chunks[0]["input_ids"][0, :length]
    for chunk in rows.chunks:
        same = chunk["input_ids"][:, : len(first)].eq(first).all(dim=0)
        first = first[: int(same.long().cumprod(0).sum())]
    return len(first) if sum(len(chunk["input_ids"]) for chunk in rows.chunks) > 1 else 0

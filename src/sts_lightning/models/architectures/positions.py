"""Limits of a model: number of positions, width of attention windows, exact repetition on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

NOT_REPEATABLE = frozenset(("gpt_oss", "mixtral", "qwen3_moe"))
"""Model types that PyTorch rejects on CUDA under ``deterministic=true``: their experts count by histc."""


def number_positions(backbone: PreTrainedModel) -> None:
    """Give OPT its positions, which it otherwise sums up in float32: CUDA has no deterministic form of that.

    Args:
        backbone: Model, changed in place; other model types are left as they are.
    """
    if backbone.config.model_type == "opt":
        backbone.register_forward_pre_hook(_add_positions, with_kwargs=True)


def _add_positions(
    backbone: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Add the positions of rows without an attention mask, all of which are tokens."""
    given = [kwargs.get(name) for name in ("attention_mask", "position_ids")]
    tokens = kwargs.get("input_ids")
    tokens = kwargs.get("inputs_embeds") if tokens is None else tokens
    if args or tokens is None or any(value is not None for value in given):
        return args, kwargs
    cache = kwargs.get("past_key_values")
    start = 0 if cache is None else cache.get_seq_length()
    positions = torch.arange(start, start + tokens.shape[1], device=tokens.device)
    return args, {**kwargs, "position_ids": positions.expand(len(tokens), -1)}


def position_offset(backbone: PreTrainedModel) -> int:
    """Return the position of a row's first token: RoBERTa's family counts from after its padding index."""
    for module in backbone.modules():
        table = getattr(module, "position_embeddings", None)
        if isinstance(table, nn.Embedding):
            return 0 if table.padding_idx is None else table.padding_idx + 1
    return 0


def most_positions(backbone: PreTrainedModel) -> int | None:
    """Return the maximum number of tokens of a row, None if there is no limit (T5, XLNet).

    In RoBERTa's family the positions up to the padding index are not for tokens.
    """
    config = backbone.config
    declared = [
        getattr(config, key, None) for key in ("max_encoder_position_embeddings", "max_position_embeddings")
    ]
    known = [count for count in declared if isinstance(count, int) and count > 0]
    return known[0] - position_offset(backbone) if known else None


def check_length(backbone: PreTrainedModel, longest: int, max_length: int, virtual_tokens: int = 0) -> None:
    """Reject settings under which a row can be longer than the model's positions.

    Otherwise training would fail at the first row that is too long.

    Args:
        backbone: Model.
        longest: Number of tokens of the longest row: sentence, template and special tokens.
        max_length: Maximum number of tokens of a sentence, for the message.
        virtual_tokens: Length of a trained prefix, which takes positions too.

    Raises:
        ValueError: The longest row does not fit.
    """
    most = most_positions(backbone)
    needed = longest + virtual_tokens
    if most is None or needed <= most:
        return
    added = needed - max_length
    around = f" and up to {added} more of template, special tokens and trained prefix" if added else ""
    remedy = f"lower it to at most {most - added}" if most > added else "choose a shorter template"
    raise ValueError(
        f"max_length {max_length}{around} exceeds the {most} positions of "
        f"{type(backbone).__name__}; {remedy}."
    )


def longest_sentence(backbone: PreTrainedModel, added: int, bidirectional: bool) -> int | None:
    """Return the maximum number of tokens of a sentence that a model can read, None if there is no limit.

    Args:
        backbone: Model.
        added: Number of further tokens of a row: template, special tokens and trained prefix.
        bidirectional: Whether layers of a causal model are bidirectional, for which a row has to fit into
            the attention windows.
    """
    windows = layer_windows(backbone.config, backbone.config.num_hidden_layers) if bidirectional else ()
    known = [count for count in (most_positions(backbone), *windows) if count is not None]
    return min(known) - added if known else None


def layer_windows(config: PreTrainedConfig, depth: int) -> Sequence[int | None]:
    """Return the width of each layer's attention window in tokens, the token itself included; None for all.

    Args:
        config: Configuration of the model.
        depth: Number of layers.
    """
    types = getattr(config, "layer_types", None)
    widths = {
        "sliding_attention": getattr(config, "sliding_window", None),
        "chunked_attention": getattr(config, "attention_chunk_size", None),
    }
    if types is None:
        return [widths["sliding_attention"]] * depth
    return [widths.get(kind) for kind in types]

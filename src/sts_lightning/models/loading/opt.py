"""Positions of OPT that a GPU repeats exactly."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel


def number_positions(backbone: PreTrainedModel) -> None:
    """Give OPT its positions, which it sums up in float32 otherwise; CUDA has no deterministic sum."""
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
    return args, {**kwargs, "position_ids": positions.expand(tokens.shape[0], -1)}

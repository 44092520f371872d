"""How many tokens of a row a model can take, and how far its tokens see."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from sts_lightning.errors import ConfigError


def position_offset(backbone: PreTrainedModel) -> int:
    """The position of a row's first token: RoBERTa's family counts from after its padding index."""
    for module in backbone.modules():
        table = getattr(module, "position_embeddings", None)
        if isinstance(table, nn.Embedding):
            return 0 if table.padding_idx is None else table.padding_idx + 1
    return 0


def most_positions(backbone: PreTrainedModel) -> int | None:
    """The most tokens that a row can have, None where there is no limit (T5, XLNet).

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

    Otherwise the first row that is long enough would stop a training halfway.

    Args:
        backbone: The model.
        longest: Tokens of the longest row: sentence, template and special tokens.
        max_length: The setting, for the message.
        virtual_tokens: Length of a trained prefix, which takes positions too.

    Raises:
        ConfigError: The longest row does not fit.
    """
    most = most_positions(backbone)
    needed = longest + virtual_tokens
    if most is None or needed <= most:
        return
    added = needed - max_length
    around = f" and up to {added} more of template, special tokens and trained prefix" if added else ""
    remedy = f"at most model.max_length={most - added}" if most > added else "a shorter template"
    raise ConfigError(
        f"model.max_length={max_length}{around} exceeds the {most} positions of {type(backbone).__name__}; "
        f"choose {remedy}."
    )


def layer_windows(config: PreTrainedConfig, depth: int) -> Sequence[int | None]:
    """Width of each layer's attention window: a token sees that many tokens, itself included; None for all.

    Args:
        config: The model's configuration.
        depth: Its number of layers.
    """
    types = getattr(config, "layer_types", None)
    widths = {
        "sliding_attention": getattr(config, "sliding_window", None),
        "chunked_attention": getattr(config, "attention_chunk_size", None),
    }
    if types is None:
        return [widths["sliding_attention"]] * depth
    return [widths.get(kind) for kind in types]

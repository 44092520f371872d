"""Jina's BERT with linear attention biases, which transformers lacks, under its checkpoints' key names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertConfig, PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.bert.modeling_bert import BertSelfOutput

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"geglu": F.gelu, "reglu": F.relu}


def head_slopes(heads: int) -> list[float]:
    r"""Compute the slope m of each attention head (ALiBi, Press et al. 2022, Sec. 3).

    For a power of two, n, they are :math:`2^{-8k/n}`, k = 1, ..., n; otherwise those of the next lower power
    of two, then every second one of the next higher.
    """
    exponent = math.log2(heads)
    if exponent.is_integer():
        return [2.0 ** (-8.0 * k / heads) for k in range(1, heads + 1)]
    lower = 2 ** math.floor(exponent)
    return head_slopes(lower) + head_slopes(2 * lower)[0::2][: heads - lower]


class Embeddings(nn.Module):
    """Embeddings of tokens, without positions."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, embedded: Tensor) -> Tensor:
        """Add the embedding of segment 0, normalise: (B, T, D) -> (B, T, D)."""
        out: Tensor = self.dropout(self.LayerNorm(embedded + self.token_type_embeddings.weight[0]))
        return out


class SelfAttention(nn.Module):
    """Queries, keys and values."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        self.dropout = config.attention_probs_dropout_prob
        self.query, self.key, self.value = (
            nn.Linear(config.hidden_size, config.hidden_size) for _ in range(3)
        )

    def forward(self, hidden: Tensor, bias: Tensor) -> Tensor:
        """Attend: (B, T, D) and a bias of the scores (B or 1, heads, T, T) -> (B, T, D)."""
        query, key, value = (
            layer(hidden).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        dropout = self.dropout if self.training else 0.0
        attended = F.scaled_dot_product_attention(query, key, value, bias.to(query.dtype), dropout)
        return attended.transpose(1, 2).flatten(2)


class Attention(nn.Module):
    """Attention and its projection."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.self = SelfAttention(config)
        self.output = BertSelfOutput(config)

    def forward(self, hidden: Tensor, bias: Tensor) -> Tensor:
        """Attend and project; see `SelfAttention`."""
        out: Tensor = self.output(self.self(hidden, bias), hidden)
        return out


class GatedMLP(nn.Module):
    """Gated linear unit in place of BERT's two layers."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        name = getattr(config, "feed_forward_type", None)
        if name not in ACTIVATIONS:
            raise ValueError(f"feed_forward_type must be one of {', '.join(ACTIVATIONS)}, got {name!r}.")
        self.activation = ACTIVATIONS[name]
        self.gated_layers = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.wo = nn.Linear(config.intermediate_size, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.layernorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, hidden: Tensor) -> Tensor:
        """Compute norm(W_o (act(g) * v) + x) with [g; v] = W x: (B, T, D) -> (B, T, D)."""
        gate, value = self.gated_layers(hidden).chunk(2, dim=-1)
        out: Tensor = self.layernorm(self.wo(self.dropout(self.activation(gate) * value)) + hidden)
        return out


class Layer(GradientCheckpointingLayer):
    """Layer of the encoder."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.mlp = GatedMLP(config)

    def forward(self, hidden: Tensor, bias: Tensor) -> Tensor:
        """Attend, then apply the gated unit."""
        out: Tensor = self.mlp(self.attention(hidden, bias))
        return out


class Encoder(nn.Module):
    """The layers."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))


class JinaBertModel(PreTrainedModel):
    r"""Encoder of jina-embeddings-v2-base-en and -small-en (Günther et al. 2023, arXiv 2310.19923).

    BERT with a gated linear unit in each layer and, instead of position embeddings, a bias of the attention
    scores that grows with the distance, the same in both directions:

    .. math:: \mathrm{softmax}_j\bigl(q_i \cdot k_j / \sqrt{d} - m_h |i - j|\bigr)

    The models' own code does not run with current versions of transformers.

    Args:
        config: BERT's configuration with ``position_embedding_type="alibi"`` and ``feed_forward_type``.

    Raises:
        ValueError: Unknown ``feed_forward_type``.
    """

    written_for = "jina-embeddings-v2-base-en"
    config_class = BertConfig
    base_model_prefix = "bert"
    supports_gradient_checkpointing = True
    _input_embed_layer = "word_embeddings"
    _supports_sdpa = True
    _no_split_modules = ["Layer"]

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        self.slopes = head_slopes(config.num_attention_heads)
        self.post_init()  # type: ignore[no-untyped-call]

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_hidden_states: bool = False,
        **unused: Any,
    ) -> BaseModelOutput:
        """Encode a padded batch.

        Args:
            input_ids: Token ids, (B, T).
            attention_mask: 1 for tokens and 0 for padding, (B, T); by default all are tokens.
            inputs_embeds: Token embeddings (B, T, D) instead of ``input_ids``.
            output_hidden_states: Whether to return the output of each layer too.
            **unused: Arguments of BERT that this model has no use for, such as ``position_ids``.
        """
        if inputs_embeds is None:
            inputs_embeds = self.embeddings.word_embeddings(input_ids)
        bias = self._bias(inputs_embeds.shape[1], inputs_embeds.device)
        if attention_mask is not None:
            bias = bias.masked_fill(attention_mask[:, None, None, :] == 0, torch.finfo(torch.float32).min)
        hidden = self.embeddings(inputs_embeds)
        states = [hidden]
        for layer in self.encoder.layer:
            hidden = layer(hidden, bias)
            states.append(hidden)
        return BaseModelOutput(hidden, tuple(states) if output_hidden_states else None)

    def _bias(self, length: int, device: torch.device) -> Tensor:
        """Return the bias of the attention scores, (1, heads, T, T) in float32."""
        position = torch.arange(length, device=device)
        distance = (position[:, None] - position).abs()
        return -torch.tensor(self.slopes, device=device)[None, :, None, None] * distance

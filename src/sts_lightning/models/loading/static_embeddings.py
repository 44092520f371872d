"""Static embeddings: a vector for each token, averaged; of sentence-transformers, model2vec and GloVe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
from transformers.modeling_outputs import BaseModelOutput

PADDING = "<|padding|>"


class StaticConfig(PreTrainedConfig):
    """Sizes of a table of static embeddings."""

    model_type = "static_embeddings"

    def __init__(self, vocab_size: int = 1, hidden_size: int = 1, **settings: Any) -> None:
        super().__init__(**settings)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = 1


class StaticModel(PreTrainedModel):
    """Backbone whose hidden states are the vectors of the tokens themselves."""

    config_class = StaticConfig
    _input_embed_layer = "embeddings"

    def __init__(self, config: StaticConfig) -> None:
        super().__init__(config)
        last = config.vocab_size - 1  # an empty sentence is padding, which training leaves at zero
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=last)
        self.post_init()  # type: ignore[no-untyped-call]

    @classmethod
    def of(cls, table: Tensor) -> StaticModel:
        """Build the model of a table, (N, D); row N, of zeros, is that of padding."""
        model = cls(StaticConfig(vocab_size=len(table) + 1, hidden_size=table.shape[1]))
        with torch.no_grad():
            model.embeddings.weight[:-1] = table
            model.embeddings.weight[-1] = 0.0
        return model

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_hidden_states: bool = False,
    ) -> BaseModelOutput:
        """Look up the tokens, (N, L) -> (N, L, D)."""
        hidden = self.embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        return BaseModelOutput(
            last_hidden_state=hidden, hidden_states=(hidden, hidden) if output_hidden_states else None
        )


def static_backbone(table: Tensor, file: Path) -> tuple[StaticModel, PreTrainedTokenizerFast]:
    """Return the model of a table, (N, D), and the tokenizer of a file in the format of ``tokenizers``.

    Raises:
        ValueError: The tokenizer has a token without a row.
    """
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.post_processor = None  # neither sentence-transformers nor model2vec adds special tokens
    # Padding has the id after the last row; the tokenizer of a model folder of ours has it already.
    own = tokenizer.token_to_id(PADDING) == len(table)
    missing = len(table) + own - tokenizer.get_vocab_size()
    if missing < 0:
        raise ValueError(f"tokenizer.json has {-missing} tokens more than the table has rows")
    tokenizer.add_tokens([f"<|unused{number}|>" for number in range(missing)])
    limit = (tokenizer.truncation or {}).get("max_length")
    return StaticModel.of(table), PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PADDING, model_max_length=limit
    )

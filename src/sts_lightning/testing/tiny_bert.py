"""Small BERT with random weights, built from transformers' classes within a second."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.encoding import EncodingConfig, takes_settings

if TYPE_CHECKING:
    from peft import PeftConfig

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@takes_settings(EncodingConfig)
def tiny_bert(
    hidden_size: int = 32,
    layers: int = 2,
    heads: int = 2,
    dropout: float = 0.1,
    weights_seed: int = 0,
    adapter: PeftConfig | None = None,
    **settings: Any,
) -> SentenceEncoder:
    """Build a BERT with random weights and a character tokenizer, for tests.

    Args:
        hidden_size: D, a multiple of ``heads``.
        layers: Number of transformer layers.
        heads: Number of attention heads.
        dropout: Dropout rate of hidden states and attention.
        weights_seed: Random seed of the weights; the global random state does not change.
        adapter: See `SentenceEncoder`.
        **settings: Fields of `EncodingConfig`.
    """
    tokenizer = character_tokenizer()
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=2 * hidden_size,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        max_position_embeddings=512,
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(weights_seed)
        backbone = BertModel(config, add_pooling_layer=False)
        return SentenceEncoder(backbone, tokenizer, adapter=adapter, **settings)


def character_tokenizer() -> PreTrainedTokenizerFast:
    """Build a WordPiece tokenizer whose pieces are the printable ASCII characters."""
    characters = [character for character in string.printable if not character.isspace()]
    pieces = [*SPECIAL_TOKENS, *characters, *(f"##{character}" for character in characters)]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=200))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **dict(zip(names, SPECIAL_TOKENS, strict=True))
    )

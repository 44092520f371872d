"""Tokenizer for plans of models whose own files cannot be read."""

from __future__ import annotations

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

PIECE = r"\p{L}{1,8}|\p{N}{1,3}|[^\s\p{L}\p{N}]"
"""A piece of at most eight letters or three digits, or one sign: about as many as there are sub-words."""


def stand_in_tokenizer(causal: bool) -> PreTrainedTokenizerFast:
    """Build a tokenizer that counts about as many tokens as a trained one, and knows none of them.

    Args:
        causal: Whether a row has a start token alone, as decoders' rows have, or an end token too.
    """
    special = {"<s>": 0, "</s>": 1, "<pad>": 2, "<mask>": 3, "<unk>": 4}
    tokenizer = Tokenizer(models.WordLevel(special, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(PIECE), "removed", invert=True)
    tokenizer.decoder = decoders.Fuse()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A" if causal else "<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        mask_token="<mask>",
    )

"""Templates with a slot for the sentence; its truncation, and the edits of the papers' evaluation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tokenizers import processors
from transformers import BatchEncoding, PreTrainedTokenizerBase

from sts_lightning.core.choices import TextEdit

SLOT = "{sentence}"
MASK = "{mask}"

BARE = "bare_post_processor"
"""Key in ``tokenizer_config.json`` of the post-processor that one with a template replaces in an export."""


def set_post_processor(tokenizer: PreTrainedTokenizerBase, settings: Mapping[str, Any]) -> None:
    """Set how a tokenizer puts tokens around those of a text, by the entry in ``tokenizer.json``."""
    processor = processors.TemplateProcessing()  # takes the state of any class
    processor.__setstate__(json.dumps(settings).encode())
    tokenizer.backend_tokenizer.post_processor = processor


def fill_mask(tokenizer: PreTrainedTokenizerBase, argument: str, template: str) -> str:
    """Replace ``{mask}`` in a template by the tokenizer's mask token.

    Args:
        tokenizer: Tokenizer of the model.
        argument: Name of the argument, for messages.
        template: Template to fill.

    Raises:
        ValueError: The slot is missing or occurs more than once, or the tokenizer has no mask token or does
            not find it in the template.
    """
    if template.count(SLOT) != 1:
        raise ValueError(f"{argument} must contain {SLOT} exactly once: {template!r}")
    if MASK in template:
        if tokenizer.mask_token is None:
            raise ValueError(
                f"{argument} has {MASK}, but the tokenizer of {tokenizer.name_or_path} "
                "has no mask token; choose a prompt for causal models, such as prompt=eol."
            )
        template = template.replace(MASK, tokenizer.mask_token)
        if tokenizer.mask_token_id not in tokenizer(template.replace(SLOT, ""))["input_ids"]:
            raise ValueError(
                f"{argument} has {MASK}, but the tokenizer of {tokenizer.name_or_path} "
                f"does not read {tokenizer.mask_token!r} as its mask token; repair the tokenizer's files."
            )
    return template


def role_template(argument: str, prompt: str) -> str:
    """Return the template of a prompt by role: a prefix, or a prefix with the slot at its end.

    Raises:
        ValueError: Something follows the sentence, which no library's prompt could hold, or it has a mask.
    """
    prefix, _, after = prompt.partition(SLOT)
    if after or MASK in prefix:
        raise ValueError(
            f"{argument} must be a prefix, such as 'query: ', with nothing after the sentence and no {MASK}: "
            f"{prompt!r}"
        )
    return prefix + SLOT


def edit(sentence: str, how: TextEdit) -> str:
    """Edit a sentence as the evaluation code of the prompt papers does before it fills the template.

    A sentence that ends in none of ``. ? " '`` gets a period. That is all in PromptBERT's code
    (https://github.com/kongds/Prompt-BERT/blob/690ba6e/evaluation.py#L201) and CoT-BERT's; PromptEOL's then
    turns double quotes into single ones and a final question mark into a period. The papers do not mention
    it, and their code does not do it in training.
    """
    if how == "none" or not sentence:
        return sentence
    if sentence[-1] not in ".?\"'":
        sentence += "."
    if how == "prompt_bert":
        return sentence
    sentence = sentence.replace('"', "'")
    return f"{sentence[:-1]}." if sentence.endswith("?") else sentence


def truncate_texts(
    encode: Callable[..., BatchEncoding], texts: list[str], max_length: int | None
) -> list[str]:
    """Truncate each text after its first ``max_length`` tokens, or before a character that would be torn.

    Args:
        encode: Fast tokenizer that truncates on the right.
        texts: Texts.
        max_length: Number of tokens, without special ones; None for any number.
    """
    if max_length is None:
        return texts
    encoded = encode(
        texts,
        truncation=True,
        max_length=max_length + 1,
        add_special_tokens=False,
        return_offsets_mapping=True,
    )

    def end(text: str, spans: list[tuple[int, int]]) -> int:
        if len(spans) <= max_length:
            return len(text)
        (start, stop), (following, _) = spans[max_length - 1 :]
        return stop if stop <= following else start  # tokens of bytes have the span of their character

    return [text[: end(text, spans)] for text, spans in zip(texts, encoded["offset_mapping"], strict=True)]


def truncate_rows(rows: list[list[int]], longest: int, end: int) -> list[list[int]]:
    """Truncate rows of tokens so that the end of the template remains.

    A truncated sentence may have one token more in the template, as with byte-level BPE after a space.

    Args:
        rows: Token ids of each row.
        longest: Maximum number of tokens of a row.
        end: Number of tokens after the sentence.
    """
    return [row if len(row) <= longest else row[: longest - end] + row[len(row) - end :] for row in rows]

"""Truncation of sentences before a template is put around them."""

from __future__ import annotations

from transformers import PreTrainedTokenizerBase


def cut_texts(tokenizer: PreTrainedTokenizerBase, texts: list[str], max_length: int | None) -> list[str]:
    """Cut each text after its first ``max_length`` tokens, or before a character that would be torn.

    Args:
        tokenizer: Fast tokenizer that truncates on the right.
        texts: Texts.
        max_length: Number of tokens, without special ones; None for any number.
    """
    if max_length is None:
        return texts
    encoded = tokenizer(
        texts,
        truncation=True,
        max_length=max_length + 1,
        add_special_tokens=False,
        return_offsets_mapping=True,
        return_attention_mask=False,
        return_token_type_ids=False,
    )

    def end(text: str, spans: list[tuple[int, int]]) -> int:
        if len(spans) <= max_length:
            return len(text)
        (start, stop), (following, _) = spans[max_length - 1 :]
        return stop if stop <= following else start  # tokens of bytes have the span of their character

    return [text[: end(text, spans)] for text, spans in zip(texts, encoded["offset_mapping"], strict=True)]

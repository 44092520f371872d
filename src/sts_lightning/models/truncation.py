"""Truncation of sentences, before a template is put around them and after."""

from __future__ import annotations

from collections.abc import Callable

from transformers import BatchEncoding


def cut_texts(encode: Callable[..., BatchEncoding], texts: list[str], max_length: int | None) -> list[str]:
    """Cut each text after its first ``max_length`` tokens, or before a character that would be torn.

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


def cut_rows(rows: list[list[int]], longest: int, end: int) -> list[list[int]]:
    """Cut rows of tokens so that the end of the template remains.

    A sentence that was cut may have one token more in the template, as with byte-level BPE after a space.

    Args:
        rows: Token ids of each row.
        longest: Maximum number of tokens of a row.
        end: Number of tokens after the sentence.
    """
    return [row if len(row) <= longest else row[: longest - end] + row[len(row) - end :] for row in rows]

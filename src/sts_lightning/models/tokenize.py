"""From sentences to padded chunks of token ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from sts_lightning.errors import ConfigError

SLOT = "{sentence}"
MASK = "{mask}"


@dataclass
class Rows:
    """Tokenised sentences, cut into chunks of similar length, each padded to its own longest row.

    Attributes:
        chunks: ``input_ids`` and ``attention_mask``, each (rows, length) in int64.
        restore: Puts the concatenated rows of the chunks back in the order of the sentences, (N,).
        num_tokens: Real tokens in all chunks.
    """

    chunks: list[dict[str, Tensor]]
    restore: Tensor
    num_tokens: int


class SentenceTokenizer:
    """Applies a template and tokenises; truncation cuts the sentence, never the template.

    Without a template ``max_length`` counts the special tokens, as tokenizers do. With one it counts
    the tokens of the bare sentence, as the papers' code does.

    Args:
        tokenizer: A fast tokenizer with a pad token.
        max_length: Most tokens of a sentence.
        template: Text with the slot ``{sentence}`` and perhaps ``{mask}``, or None.

    Raises:
        ConfigError: The template has no slot, or the tokenizer lacks a token that is needed.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, max_length: int, template: str | None = None
    ) -> None:
        if not tokenizer.is_fast:
            raise ConfigError(f"{tokenizer.name_or_path} has no fast tokenizer, which is needed.")
        if max_length < 3:
            raise ConfigError(f"model.max_length must be at least 3, got {max_length}.")
        if tokenizer.pad_token_id is None:
            if tokenizer.eos_token_id is None:
                raise ConfigError(f"the tokenizer of {tokenizer.name_or_path} has no pad token.")
            tokenizer.pad_token = tokenizer.eos_token
        if template is not None:
            if template.count(SLOT) != 1:
                raise ConfigError(f"prompt.template needs the slot {SLOT} exactly once: {template!r}")
            if MASK in template:
                if tokenizer.mask_token is None:
                    raise ConfigError(
                        f"prompt.template has {MASK}, but the tokenizer of {tokenizer.name_or_path} "
                        "has no mask token; choose a prompt for causal models, such as prompt=eol."
                    )
                template = template.replace(MASK, tokenizer.mask_token)
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.template = template

    @property
    def mask_token_id(self) -> int | None:
        """The id of the mask token, if there is one."""
        mask_id: int | None = self.tokenizer.mask_token_id
        return mask_id

    def __call__(self, sentences: Sequence[str]) -> list[list[int]]:
        """Token ids of each sentence, not padded."""
        texts = list(sentences)
        if self.template is not None:
            prefix, suffix = self.template.split(SLOT)
            texts = [f"{prefix}{text}{suffix}" for text in self._cut(texts)]
        encoded = self.tokenizer(
            texts,
            truncation=self.template is None,
            max_length=self.max_length if self.template is None else None,
            return_attention_mask=False,
            return_token_type_ids=False,
        )
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    def _cut(self, texts: list[str]) -> list[str]:
        """The part of each text that its first ``max_length`` tokens cover."""
        encoded = self.tokenizer(
            texts,
            truncation=True,
            max_length=self.max_length,
            add_special_tokens=False,
            return_offsets_mapping=True,
            return_attention_mask=False,
            return_token_type_ids=False,
        )
        return [
            text[: spans[-1][1]] if len(spans) == self.max_length else text
            for text, spans in zip(texts, encoded["offset_mapping"], strict=True)
        ]

    def rows(self, sentences: Sequence[str], chunk_tokens: int) -> Rows:
        """Tokenise, sort by length and cut into chunks of at most ``chunk_tokens`` padded tokens."""
        return chunk(self(sentences), chunk_tokens, self.tokenizer.pad_token_id, self.tokenizer.padding_side)


def chunk(ids: list[list[int]], chunk_tokens: int, pad_id: int, padding_side: str) -> Rows:
    """Cut rows into chunks, longest rows first, and pad each chunk to its longest row.

    Args:
        ids: Token ids of each row.
        chunk_tokens: Most tokens of a chunk with its padding; a longer row has a chunk of its own.
        pad_id: Fills up.
        padding_side: ``left`` or ``right``.
    """
    lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
    order = np.argsort(-lengths, kind="stable")
    chunks, start = [], 0
    while start < len(order):
        longest = int(lengths[order[start]])
        members = order[start : start + max(1, chunk_tokens // longest)]
        chunks.append(_pad([ids[row] for row in members], longest, pad_id, padding_side))
        start += len(members)
    return Rows(chunks, torch.from_numpy(np.argsort(order)), int(lengths.sum()))


def _pad(rows: list[list[int]], longest: int, pad_id: int, padding_side: str) -> dict[str, Any]:
    input_ids = np.full((len(rows), longest), pad_id, dtype=np.int64)
    attention_mask = np.zeros((len(rows), longest), dtype=np.int64)
    for index, row in enumerate(rows):
        span = slice(longest - len(row), None) if padding_side == "left" else slice(len(row))
        input_ids[index, span] = row
        attention_mask[index, span] = 1
    return {"input_ids": torch.from_numpy(input_ids), "attention_mask": torch.from_numpy(attention_mask)}

"""From sentences to padded chunks of token ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from sts_lightning.choices import Denoise
from sts_lightning.errors import ConfigError

SLOT = "{sentence}"
MASK = "{mask}"


@dataclass
class Rows:
    """Tokenised sentences, cut into chunks of similar length, each padded to its own longest row.

    Behind the N sentences may stand M bare templates, whose vectors are subtracted.

    Attributes:
        chunks: ``input_ids`` and ``attention_mask``, each (rows, length) in int64, and ``position_ids``
            where they are not the natural ones.
        restore: Puts the concatenated rows of the chunks back in the order of the sentences, (N + M,).
        num_tokens: Real tokens in all chunks.
        baseline: For each sentence the bare template to subtract, from 0 to M - 1, (N,); None without.
    """

    chunks: list[dict[str, Tensor]]
    restore: Tensor
    num_tokens: int
    baseline: Tensor | None = None

    def head(self, count: int) -> Rows:
        """The first ``count`` sentences alone; nothing is subtracted from them."""
        order = torch.argsort(self.restore)
        parts = order.split([len(chunk["input_ids"]) for chunk in self.chunks])
        chunks = [
            {name: values[part < count] for name, values in chunk.items()}
            for chunk, part in zip(self.chunks, parts, strict=True)
            if bool((part < count).any())
        ]
        kept = order[order < count]
        return Rows(chunks, torch.argsort(kept), sum(int(c["attention_mask"].sum()) for c in chunks))

    def limited(self, count: int) -> Rows:
        """The same in chunks of at most ``count`` rows."""
        parts = [
            {name: values[start : start + count] for name, values in chunk.items()}
            for chunk in self.chunks
            for start in range(0, len(chunk["input_ids"]), count)
        ]
        return replace(self, chunks=[_trim(part) for part in parts])


class SentenceTokenizer:
    """Applies a template and tokenises; truncation cuts the sentence, never the template.

    Without a template ``max_length`` counts the special tokens, as tokenizers do. With one it counts
    the tokens of the bare sentence, as the papers' code does.

    Args:
        tokenizer: A fast tokenizer with a pad token.
        max_length: Most tokens of a sentence.
        template: Text with the slot ``{sentence}`` and perhaps ``{mask}``, or None.
        view_templates: The template of each view in training, where they differ.
        denoise: What is subtracted in training.
        position_offset: The position of a row's first token, 0 but for models of RoBERTa's family.

    Raises:
        ConfigError: A template has no slot, or the tokenizer lacks a token that is needed.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        max_length: int,
        template: str | None = None,
        view_templates: Sequence[str] | None = None,
        denoise: Denoise = "none",
        position_offset: int = 0,
    ) -> None:
        if not tokenizer.is_fast:
            raise ConfigError(f"{tokenizer.name_or_path} has no fast tokenizer, which is needed.")
        if max_length < 3:
            raise ConfigError(f"model.max_length must be at least 3, got {max_length}.")
        if tokenizer.pad_token_id is None:
            if tokenizer.eos_token_id is None:
                raise ConfigError(f"the tokenizer of {tokenizer.name_or_path} has no pad token.")
            tokenizer.pad_token = tokenizer.eos_token
        if denoise not in get_args(Denoise):
            known = ", ".join(get_args(Denoise))
            raise ConfigError(f"prompt.denoise must be one of {known}, got {denoise!r}.")
        if denoise != "none" and template is None:
            raise ConfigError(f"prompt.denoise={denoise} needs a template.")
        if view_templates is not None and template is None:
            raise ConfigError("prompt.view_templates need prompt.template, which evaluation uses.")
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.template = None if template is None else self._check(template)
        self.view_templates = [self._check(text) for text in view_templates] if view_templates else None
        self.denoise: Denoise = denoise
        self.position_offset = position_offset

    def _check(self, template: str) -> str:
        """The template with the tokenizer's mask token filled in."""
        check_template(template)
        if MASK in template:
            if self.tokenizer.mask_token is None:
                raise ConfigError(
                    f"prompt.template has {MASK}, but the tokenizer of {self.tokenizer.name_or_path} "
                    "has no mask token; choose a prompt for causal models, such as prompt=eol."
                )
            template = template.replace(MASK, self.tokenizer.mask_token)
        return template

    @property
    def mask_token_id(self) -> int | None:
        """The id of the mask token, if there is one."""
        mask_id: int | None = self.tokenizer.mask_token_id
        return mask_id

    def __call__(self, sentences: Sequence[str]) -> list[list[int]]:
        """Token ids of each sentence in the evaluation's template, not padded."""
        return self._ids(sentences, self.template)

    def _ids(
        self,
        sentences: Sequence[str],
        template: str | None,
        augment: Callable[[list[int], Sequence[int]], list[int]] | None = None,
    ) -> list[list[int]]:
        texts = list(sentences)
        if template is not None:
            prefix, suffix = template.split(SLOT)
            texts = [f"{prefix}{text}{suffix}" for text in self._cut(texts)]
        encoded = self.tokenizer(
            texts,
            truncation=template is None,
            max_length=self.max_length if template is None else None,
            return_attention_mask=False,
            return_token_type_ids=False,
            return_special_tokens_mask=augment is not None,
        )
        ids: list[list[int]] = encoded["input_ids"]
        if augment is not None:
            if template is not None:
                raise ValueError("an augmentation would change the template too.")
            masks = encoded["special_tokens_mask"]
            ids = [augment(row, mask) for row, mask in zip(ids, masks, strict=True)]
        return [row or [self._empty_id] for row in ids]

    @property
    def _empty_id(self) -> int:
        """The token that represents an empty text where the tokenizer adds no special tokens."""
        tokenizer = self.tokenizer
        known = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id)
        return int(next(token for token in known if token is not None))

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

    def rows(self, sentences: Sequence[str], chunk_tokens: int, denoise: bool = False) -> Rows:
        """Tokenise as in evaluation and cut into chunks of at most ``chunk_tokens`` padded tokens.

        Args:
            sentences: The texts.
            chunk_tokens: Most padded tokens of a chunk.
            denoise: Whether bare templates are added to be subtracted.
        """
        ids = self(sentences)
        rows = self._chunk(ids, chunk_tokens)
        return self._with_baselines(rows, [ids], [self.template or SLOT]) if denoise else rows

    def training_rows(
        self,
        views: Sequence[Sequence[str]],
        augmentations: Sequence[Callable[[list[int], Sequence[int]], list[int]] | None],
        chunk_tokens: int,
    ) -> Rows:
        """Tokenise the views of a batch as in training, one view after the other.

        Args:
            views: The sentences of each view.
            augmentations: What changes the tokens of each view, if anything.
            chunk_tokens: Most padded tokens of a chunk.

        Raises:
            ConfigError: There are not as many view templates as views.
        """
        templates: Sequence[str | None] = self.view_templates or [self.template] * len(views)
        if len(templates) != len(views):
            raise ConfigError(
                f"prompt.view_templates has {len(templates)} templates for {len(views)} views of the data."
            )
        ids = [
            self._ids(sentences, template, augment)
            for sentences, template, augment in zip(views, templates, augmentations, strict=True)
        ]
        rows = self._chunk([row for view in ids for row in view], chunk_tokens)
        if self.denoise == "none":
            return rows
        return self._with_baselines(rows, ids, [template or SLOT for template in templates])

    def _chunk(self, ids: list[list[int]], chunk_tokens: int) -> Rows:
        return chunk(ids, chunk_tokens, self.tokenizer.pad_token_id, self.tokenizer.padding_side)

    def _with_baselines(self, rows: Rows, ids: list[list[list[int]]], templates: Sequence[str]) -> Rows:
        """Add the bare template of each length of sentence that occurs, one row each."""
        bare: dict[tuple[str, int], int] = {}
        baseline, texts, positions = [], [], []
        for view, template in zip(ids, templates, strict=True):
            before, behind = self._around(template)
            for row in view:
                length = len(row) - len(before) - len(behind)
                if (template, length) not in bare:
                    bare[template, length] = len(bare)
                    filling = [self.tokenizer.pad_token_id] * length if self.denoise == "pad" else []
                    texts.append([*before, *filling, *behind])
                    gap = length if self.denoise == "shift" else 0
                    places = np.arange(len(texts[-1]))
                    positions.append((places + gap * (places >= len(before)) + self.position_offset).tolist())
                baseline.append(bare[template, length])
        longest = max(map(len, texts))
        extra = _pad(texts, longest, self.tokenizer.pad_token_id, "right")
        extra["position_ids"] = _pad(positions, longest, 0, "right")["input_ids"]
        size = len(baseline)
        return Rows(
            [*rows.chunks, extra],
            torch.cat([rows.restore, torch.arange(size, size + len(texts))]),
            rows.num_tokens + sum(map(len, texts)),
            torch.tensor(baseline),
        )

    @property
    def longest_row(self) -> int:
        """The most tokens that a row can have, template and special tokens included."""
        return self.longest(1)["input_ids"].shape[1]

    def longest(self, count: int) -> dict[str, Tensor]:
        """A chunk of ``count`` rows of the most tokens that a row can have."""
        special: int = self.tokenizer.num_special_tokens_to_add()
        room = self.max_length - (special if self.template is None else 0)
        texts = [text or SLOT for text in (self.template, *(self.view_templates or []))]
        before, behind = max(map(self._around, texts), key=lambda parts: len(parts[0]) + len(parts[1]))
        filler = self.tokenizer("a", add_special_tokens=False)["input_ids"][:1] * room
        return _pad([[*before, *filler, *behind]] * count, len(before) + room + len(behind), 0, "right")

    def _around(self, template: str) -> tuple[list[int], list[int]]:
        """The tokens of a template before and behind its slot, special tokens included."""
        prefix, suffix = template.split(SLOT)
        encoded = self.tokenizer(f"{prefix}a{suffix}", return_offsets_mapping=True)
        inside = [
            place
            for place, (start, end) in enumerate(encoded["offset_mapping"])
            if start <= len(prefix) < end
        ]
        ids: list[int] = encoded["input_ids"]
        return ids[: inside[0]], ids[inside[-1] + 1 :]


def check_template(template: str, key: str = "prompt.template") -> None:
    """Refuse a template that has no place for the sentence, or two.

    Raises:
        ConfigError: It has.
    """
    if template.count(SLOT) != 1:
        raise ConfigError(f"{key} needs the slot {SLOT} exactly once: {template!r}")


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


def _trim(chunk: dict[str, Tensor]) -> dict[str, Tensor]:
    """Without columns in which all rows are padded; they stand on one side."""
    used = chunk["attention_mask"].any(dim=0).nonzero()
    span = slice(int(used[0]), int(used[-1]) + 1)
    return {name: values[:, span] for name, values in chunk.items()}


def _pad(rows: list[list[int]], longest: int, pad_id: int, padding_side: str) -> dict[str, Tensor]:
    input_ids = np.full((len(rows), longest), pad_id, dtype=np.int64)
    attention_mask = np.zeros((len(rows), longest), dtype=np.int64)
    for index, row in enumerate(rows):
        span = slice(longest - len(row), None) if padding_side == "left" else slice(len(row))
        input_ids[index, span] = row
        attention_mask[index, span] = 1
    return {"input_ids": torch.from_numpy(input_ids), "attention_mask": torch.from_numpy(attention_mask)}

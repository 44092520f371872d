"""From sentences to token ids: template, truncation, bare templates."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import BatchEncoding, PreTrainedTokenizerBase

from sts_lightning.core.choices import Augmentation, Role
from sts_lightning.core.errors import ConfigError, check_choice
from sts_lightning.models.encoding import EncodingConfig
from sts_lightning.models.text.chunks import Division, TokenizedBatch, chunk, pad
from sts_lightning.models.text.lengths import Lengths
from sts_lightning.models.text.template import SLOT, edit, fill_mask, truncate_rows, truncate_texts

_LOCK = threading.Lock()
"""Whether and where a tokenizer truncates is a state of it: one thread at a time calls it."""


class Unseen(NamedTuple):
    """What a model does not see of some texts.

    Attributes:
        truncated: Number of texts that are truncated.
        unknown: Number of tokens that stand for something that the vocabulary does not have.
        tokens: Number of all tokens, without those that the tokenizer adds.
    """

    truncated: int
    unknown: int
    tokens: int


class SentenceTokenizer:
    """Applies a template and tokenises; the sentence is truncated, never the template.

    Without a template ``max_length`` counts the special tokens, as tokenizers do. With one, or with prompts
    by role, it counts the tokens of the bare sentence, as the papers' code does. With prompts by role a row
    is truncated as a whole, each after as many tokens as one with the longest prompt.

    Args:
        tokenizer: Fast tokenizer with a pad token.
        config: Templates, prompts and lengths.
        positions: Number of tokens of a row for which the model has positions; None for any number.
        prefix: Number of positions that a trained prefix takes of these.
        position_offset: Position of a row's first token, 0 except for models of RoBERTa's family.
        share_rows: Whether one row gives the vectors of all views of a sentence, where it begins with each
            view's own row; see `_tokens_after_view`.

    Attributes:
        roles: Template by role, of the roles that have one of their own.
        lengths: Numbers of tokens that are read.
        tokens_after_view: Number of tokens after each view's own in a row that holds all views; None where
            each view has rows of its own.

    Raises:
        ValueError: An argument is out of range, or the arguments do not fit together.
        ConfigError: The tokenizer is not a fast one, or has no pad token.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        config: EncodingConfig,
        *,
        positions: int | None = None,
        prefix: int = 0,
        position_offset: int = 0,
        share_rows: bool = False,
    ) -> None:
        if not tokenizer.is_fast:
            raise ConfigError(
                f"{tokenizer.name_or_path} has no fast tokenizer, which is required; choose another model."
            )
        if tokenizer.pad_token_id is None:
            if tokenizer.eos_token_id is None:
                raise ConfigError(
                    f"the tokenizer of {tokenizer.name_or_path} has neither a pad token nor an end token; "
                    "choose another model."
                )
            tokenizer.pad_token = tokenizer.eos_token
        tokenizer.truncation_side = "right"
        self.tokenizer = tokenizer
        self.config = config
        self.position_offset = position_offset
        self.roles: Mapping[str, str] = config.roles
        text = config.template
        self.template = None if text is None else fill_mask(tokenizer, "template", text)
        filled = [fill_mask(tokenizer, "view_templates", text) for text in config.view_templates or ()]
        self.view_templates = filled or None
        # Without a template a row holds what the tokenizer adds by itself, and one token of the sentence.
        bare = config.template is None and not self.roles
        smallest = max(3, tokenizer.num_special_tokens_to_add() + 1) if bare else 3
        added = max(map(self._added_by, (self.template, *filled, *self.roles.values())))
        self.lengths = Lengths.of(config, added, smallest, positions, prefix)
        self.tokens_after_view = self._tokens_after_view() if share_rows and filled else None

    def _tokens_after_view(self) -> list[int] | None:
        """Return how far each view's vector is from the end of the first view's row; None if not in it.

        That needs a causal model and the vector of the last token: no token sees those after it, so the last
        token of a beginning has the same vector in the whole row. CSE-SFP (Zhang et al. 2025, arXiv
        2505.00389) trains on two such views in a single forward pass. How far a view's token is from the end
        follows from the templates alone, as in `its code
        <https://github.com/ZBWpro/CSE-SFP/blob/5a5adc2b15f536ae2073ea4b84ef8b757724e08d/code/train.py>`_.
        The views then share their draws of dropout.
        """
        (before, after), *others = map(self.split, self.view_templates or [SLOT])
        shared = bool(others) and all(
            start == before and 0 < len(end) < len(after) and end == after[: len(end)]
            for start, end in others
        )
        return [0, *(len(after) - len(end) for _, end in others)] if shared else None

    def set_evaluation(self, config: EncodingConfig, max_length: int | None) -> None:
        """Take over changed settings of evaluation; see `Lengths.with_evaluation`."""
        self.lengths = self.lengths.with_evaluation(max_length)
        self.config = config

    def rows_of(self, num_views: int) -> int:
        """Return the number of rows of an example with so many views in training."""
        return num_views if self.tokens_after_view is None else 1

    def template_of(self, role: Role | None) -> str | None:
        """Return the template of a role; None is that of texts that are compared with each other.

        Raises:
            ValueError: There is no such role.
        """
        if role is not None:
            check_choice("prompt", role, Role)
        return self.template if role is None else self.roles.get(role, self.template)

    def prefix_of(self, role: Role) -> str | None:
        """Return the prompt of a role; None if it has none of its own."""
        template = self.roles.get(role)
        return None if template is None else template.removesuffix(SLOT)

    def __call__(self, sentences: Sequence[str], role: Role | None = None) -> list[list[int]]:
        """Return the token ids of each sentence as in evaluation, not padded."""
        return self._ids(sentences, self.template_of(role), self.lengths.eval)[0]

    def _ids(
        self,
        sentences: Sequence[str],
        template: str | None,
        max_length: int | None,
        augment: Augmentation | None = None,
    ) -> tuple[list[list[int]], int]:
        """Return the token ids of each sentence, and the number of sentences that were truncated."""
        texts = list(sentences)
        truncated: set[int] = set()
        prefix, suffix = (template or SLOT).split(SLOT)
        # A row that ends with the sentence is truncated as a whole, as after a prompt elsewhere.
        row_length = None if suffix else self._row_length(template, max_length)
        if template is not None:
            if suffix:
                whole, texts = texts, truncate_texts(self._encode, texts, max_length)
                truncated |= {row for row, text in enumerate(texts) if len(text) < len(whole[row])}
            texts = [f"{prefix}{text}{suffix}" for text in texts]
        encoded = self._encode(
            texts,
            truncation=row_length is not None,
            max_length=row_length,
            return_special_tokens_mask=augment is not None,
        )
        ids: list[list[int]] = encoded["input_ids"]
        if row_length is not None:  # few rows are as long: to ask for the rest of each takes time
            full = (row for row, tokens in enumerate(ids) if len(tokens) == row_length)
            details: Any = encoded.encodings
            truncated |= {row for row in full if details[row].overflowing}
        if augment is not None:
            if template is not None:
                raise ValueError("an augmentation would change the template too; use prompt=none.")
            masks = encoded["special_tokens_mask"]
            ids = [augment(row, mask) for row, mask in zip(ids, masks, strict=True)]
        lengthened = augment is not None or (template is not None and row_length is None)
        most = self.lengths.positions if lengthened else None
        if most is not None and any(len(row) > most for row in ids):
            start, end = map(len, self.split(template or SLOT))
            # Without a template special tokens count among those that have positions.
            longest = most if template is None and not self.roles else start + most + end
            truncated |= {row for row, tokens in enumerate(ids) if len(tokens) > longest}
            ids = truncate_rows(ids, longest, end)
        return [row or [self._empty_id] for row in ids], len(truncated)

    def _encode(self, texts: list[str] | str, **options: Any) -> BatchEncoding:
        options |= {"return_attention_mask": False, "return_token_type_ids": False}
        with _LOCK:
            encoded: BatchEncoding = self.tokenizer(texts, **options)
        return encoded

    def _row_length(self, template: str | None, max_length: int | None) -> int | None:
        """Return the number of tokens of a row with a sentence of the maximum length; None for any number."""
        added = self.lengths.added if self.roles else self._added_by(template)
        return None if max_length is None else max_length + added

    def cut(self, texts: Sequence[str]) -> list[str]:
        """Return texts as far as evaluation reads them, cut after whole characters."""
        length, special = self.lengths.eval, self.tokenizer.num_special_tokens_to_add()
        return truncate_texts(self._encode, list(texts), None if length is None else max(1, length - special))

    @property
    def row_tokens(self) -> int | None:
        """Number of tokens to which evaluation truncates a row, template included; None for any number."""
        return self._row_length(self.template, self.lengths.eval)

    @property
    def _empty_id(self) -> int:
        """Token that represents an empty text if the tokenizer adds no special tokens."""
        tokenizer = self.tokenizer
        known = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id)
        return int(next(token for token in known if token is not None))

    def count_unseen(self, sentences: Sequence[str], max_length: int | None) -> Unseen:
        """Count what a model does not see of texts: the ends that are truncated, and unknown tokens.

        Args:
            sentences: Texts.
            max_length: Maximum number of tokens, counted as in training; None for any number.
        """
        if not sentences:
            return Unseen(0, 0, 0)
        alone = self.template is None and not self.roles
        options = {"add_special_tokens": alone, "return_special_tokens_mask": True, "verbose": False}
        encoded = self._encode(list(sentences), **options)
        rows, masks = encoded["input_ids"], encoded["special_tokens_mask"]
        # Not those that the tokenizer adds: in GPT-2's family the end token is the unknown one too.
        content = [
            token
            for row, mask in zip(rows, masks, strict=True)
            for token, added in zip(row, mask, strict=True)
            if not added
        ]
        truncated = 0 if max_length is None else sum(len(row) > max_length for row in rows)
        return Unseen(truncated, content.count(self.tokenizer.unk_token_id), len(content))

    def rows(
        self, sentences: Sequence[str], chunk_tokens: int, role: Role | None = None, launch: int = 0
    ) -> TokenizedBatch:
        """Edit and tokenise as in evaluation, with the bare templates to subtract, if any, in the last chunk.

        Args:
            sentences: Texts, N of them.
            chunk_tokens: Maximum number of tokens of a chunk, padding included.
            role: Role of all sentences; None for ``template``.
            launch: See `Division`.
        """
        template = self.template_of(role)
        if (how := self.config.text_edit) != "none":
            sentences = [edit(text, how) for text in sentences]
        ids, truncated = self._ids(sentences, template, self.lengths.eval)
        batch = self._chunk([ids], [template], Division(chunk_tokens, launch), self.config.subtracts)
        return replace(batch, truncated=truncated)

    def evaluation_rows(
        self, views: Sequence[Sequence[str]], augmentations: Sequence[Augmentation | None], **options: Any
    ) -> TokenizedBatch:
        """Tokenise the views of a batch by `rows`, one after the other; nothing is augmented."""
        return self.rows([text for view in views for text in view], **options)

    def training_rows(
        self,
        views: Sequence[Sequence[str]],
        augmentations: Sequence[Augmentation | None],
        chunk_tokens: int,
        by_role: bool = True,
        launch: int = 0,
    ) -> TokenizedBatch:
        """Tokenise the views of a batch as in training, one view after the other.

        With prompts by role the first view is a query, and each further one a document.

        Args:
            views: Sentences of each view.
            augmentations: Augmentation of each view, None for an unchanged one.
            chunk_tokens: Maximum number of tokens of a chunk, padding included.
            by_role: Whether the views have roles; otherwise ``template`` is that of all.
            launch: See `Division`.

        Raises:
            ConfigError: The number of view templates is not the number of views.
        """
        templates: Sequence[str | None] = self.view_templates or [self.template] * len(views)
        if self.roles and by_role:
            further = [self.template_of("document")] * (len(views) - 1)
            templates = [self.template_of("query"), *further]
        if len(templates) != len(views):
            raise ConfigError(
                f"prompt.view_templates has {len(templates)} templates for {len(views)} views of the data."
            )
        after_view = self.tokens_after_view if all(view == views[0] for view in views) else None
        if after_view is not None:
            views, templates, augmentations = views[:1], templates[:1], augmentations[:1]
        ids = [
            self._ids(sentences, template, self.lengths.train, augment)[0]
            for sentences, template, augment in zip(views, templates, augmentations, strict=True)
        ]
        division = Division(chunk_tokens, launch)
        batch = self._chunk(ids, templates, division, self.config.denoise != "none")
        for rows in batch.chunks if after_view is not None else ():
            last = rows["attention_mask"].sum(dim=1, keepdim=True) - 1
            rows["view_positions"] = last - torch.tensor(after_view)
        return batch

    def _chunk(
        self,
        ids: list[list[list[int]]],
        templates: Sequence[str | None],
        division: Division,
        denoise: bool,
    ) -> TokenizedBatch:
        rows = [row for view in ids for row in view]
        pairs = zip(templates, ids, strict=True)
        at = [position for template, view in pairs for position in self._mask_at(template, view)]
        mask_at = at if len(at) == len(rows) else None
        batch = chunk(rows, division, self.tokenizer.pad_token_id, mask_at)
        return self._with_baselines(batch, ids, templates) if denoise else batch

    def _mask_at(self, template: str | None, rows: Sequence[Sequence[int]]) -> list[int]:
        """Return the position of the template's last mask token in each row; nothing if it has none."""
        at = self.mask_position(template)
        return [] if at is None else [at if at >= 0 else len(row) + at for row in rows]

    def mask_position(self, template: str | None) -> int | None:
        """Return the position of a template's last mask token in every row; None if it has none.

        It follows from the tokens before the sentence, which may have mask tokens too, or is negative and
        counts from the end of the row.
        """
        tokenizer = self.tokenizer
        if template is None or tokenizer.mask_token is None or tokenizer.mask_token not in template:
            return None
        mask: Any = tokenizer.mask_token_id
        prefix, suffix = (tokens[::-1] for tokens in self.split(template))
        if mask in suffix:
            return -1 - suffix.index(mask)
        return len(prefix) - 1 - prefix.index(mask) if mask in prefix else None

    def _with_baselines(
        self, batch: TokenizedBatch, ids: list[list[list[int]]], templates: Sequence[str | None]
    ) -> TokenizedBatch:
        """Append one bare template for each pair of template and sentence length that occurs."""
        bare: dict[tuple[str, int], int] = {}
        baseline, texts, positions, mask_at = [], [], [], []
        for view, view_template in zip(ids, templates, strict=True):
            template = view_template or SLOT
            prefix, suffix = self.split(template)
            for row in view:
                length = len(row) - len(prefix) - len(suffix)
                if (template, length) not in bare:
                    bare[template, length] = len(bare)
                    filling = [self.tokenizer.pad_token_id] * length if self.config.denoise == "pad" else []
                    texts.append([*prefix, *filling, *suffix])
                    mask_at += self._mask_at(template, texts[-1:])
                    gap = length if self.config.denoise == "shift" else 0
                    index = np.arange(len(texts[-1]))
                    positions.append((index + gap * (index >= len(prefix)) + self.position_offset).tolist())
                baseline.append(bare[template, length])
        longest = max(map(len, texts))
        extra = pad(texts, longest, self.tokenizer.pad_token_id, mask_at or None)
        extra["position_ids"] = pad(positions, longest, 0)["input_ids"]
        inverse_order = torch.cat(
            [batch.inverse_order, torch.arange(len(baseline), len(baseline) + len(texts))]
        )
        order = np.concatenate([batch.order, np.arange(len(baseline), len(baseline) + len(texts))])
        num_tokens = batch.num_tokens + sum(map(len, texts))
        return replace(
            batch,
            chunks=[*batch.chunks, extra],
            inverse_order=inverse_order,
            order=order,
            num_tokens=num_tokens,
            baseline=torch.tensor(baseline),
        )

    def _added_by(self, template: str | None) -> int:
        return 0 if template is None else sum(map(len, self.split(template)))

    def split(self, template: str) -> tuple[list[int], list[int]]:
        """Return the tokens of a row before and after its sentence, special tokens included."""
        prefix, suffix = template.split(SLOT)
        encoded = self._encode(f"{prefix}a{suffix}", return_offsets_mapping=True)
        inside = [
            index
            for index, (start, end) in enumerate(encoded["offset_mapping"])
            if start <= len(prefix) < end
        ]
        ids: list[int] = encoded["input_ids"]
        if not inside:  # a table of word vectors need not have the word
            return ids, []
        return ids[: inside[0]], ids[inside[-1] + 1 :]

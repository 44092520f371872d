"""From sentences to padded chunks of token ids: template, truncation, bare templates, chunks."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from transformers import BatchEncoding, PreTrainedTokenizerBase

from sts_lightning.core.choices import Role, TextEdit
from sts_lightning.core.errors import ConfigError, check_choice
from sts_lightning.models.compute.inference import to_device
from sts_lightning.models.encoding import EncodingConfig
from sts_lightning.models.text.template import SLOT, edit, fill_mask, truncate_rows, truncate_texts

_LOCK = threading.Lock()
"""Whether and where a tokenizer truncates is a state of it: one thread at a time calls it."""

CHUNK_COST = 4
"""Each chunk takes further time, about that of a quarter of its tokens: Python, and the start of kernels."""


@dataclass
class TokenizedBatch:
    """Tokenised sentences in chunks of similar length, each padded to its longest row.

    The N sentences may be followed by M bare templates, whose vectors are subtracted.

    Attributes:
        chunks: ``input_ids`` and ``attention_mask``, each (rows, length) in int64, ``position_ids`` where
            they differ from 0, 1, 2, ..., ``mask_at``, the position of the template's mask token in each
            row, (rows, 1), if it has one, and ``view_at``, the positions of the V views' vectors in each row,
            (rows, V), if a row holds them all (see `SentenceTokenizer.share_rows`).
        restore: Index that puts the concatenated rows of the chunks back in the order of the sentences,
            (N + M,).
        num_tokens: Number of tokens in all chunks, padding excluded.
        baseline: Index of each sentence's bare template, from 0 to M - 1, (N,), or None.
        truncated: Number of sentences that were truncated, counted in evaluation alone.
        order: Sentence of each row of the chunks. An array, since Lightning would move a tensor to the GPU
            with the others, and to read it there each step would wait for the card.
    """

    chunks: list[dict[str, Tensor]]
    restore: Tensor
    num_tokens: int
    baseline: Tensor | None = None
    truncated: int = 0
    order: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.order is None and type(self.restore) is Tensor and self.restore.device.type == "cpu":
            self.order = torch.argsort(self.restore).numpy()

    def arrange(self, vectors: Tensor) -> Tensor:
        """Put the vectors of the chunks' rows in the order of the sentences, and subtract the bare templates.

        Args:
            vectors: Vectors in the order of the chunks, (N + M, D), or (N, V, D) of rows with all views.

        Returns:
            (N, D), or (V * N, D), one view after the other.
        """
        vectors = vectors[self.restore.to(vectors.device)]
        if vectors.dim() == 3:
            return vectors.transpose(0, 1).flatten(0, 1)
        if self.baseline is None:
            return vectors
        baseline = self.baseline.to(vectors.device)
        return vectors[: len(baseline)] - vectors[len(baseline) :][baseline]

    def by_chunk(self, values: Tensor) -> list[Tensor]:
        """Divide values of the sentences, (N, ...), among the chunks."""
        order = torch.argsort(self.restore.cpu()) if self.order is None else torch.from_numpy(self.order)
        rows = values[to_device(order, values.device)]
        return list(rows.split([len(chunk["input_ids"]) for chunk in self.chunks]))

    def head(self, count: int) -> TokenizedBatch:
        """Return the first ``count`` sentences of the first view, and all bare templates.

        ``num_tokens`` stays that of the whole batch: to count anew would wait for a GPU.
        """
        numbers = self.by_chunk(torch.arange(len(self.restore)))
        sentences = len(self.restore) if self.baseline is None else len(self.baseline)
        kept = [(rows < count) | (rows >= sentences) for rows in numbers]
        chunks = []
        for chunk, rows in zip(self.chunks, kept, strict=True):
            if bool(rows.any()):
                at = to_device(rows.nonzero()[:, 0], chunk["input_ids"].device)
                chunks.append({name: values[at] for name, values in chunk.items() if name != "view_at"})
        order = torch.cat(numbers)[torch.cat(kept)]
        baseline = None if self.baseline is None else self.baseline[:count]
        restore = to_device(torch.argsort(order), self.restore.device)
        return TokenizedBatch(chunks, restore, self.num_tokens, baseline)

    def limited(self, most_rows: int | None = None, most_tokens: int | None = None) -> TokenizedBatch:
        """Return the same batch in chunks of at most so many rows and padded tokens, at least one row each.

        Chunks that are small enough stay as they are: only their shapes are looked at.
        """
        pieces: list[dict[str, Tensor]] = []
        for chunk in self.chunks:
            rows, width = chunk["input_ids"].shape
            if rows <= _most(most_rows, most_tokens, width, rows):
                pieces.append(chunk)
                continue
            lengths, start = chunk["attention_mask"].sum(dim=1).tolist(), 0
            while start < rows:
                width = max(lengths[start:])
                end = start + _most(most_rows, most_tokens, width, rows)
                width = max(lengths[start:end])
                pieces.append({name: values[start:end, :width] for name, values in chunk.items()})
                start = end
        return replace(self, chunks=pieces)

    @property
    def padded_tokens(self) -> int:
        """Number of tokens in all chunks, padding included."""
        return sum(chunk["input_ids"].numel() for chunk in self.chunks)

    @property
    def largest_chunk(self) -> tuple[int, int]:
        """Rows and padded length of the chunk with the most padded tokens."""
        rows, width = max((chunk["input_ids"].shape for chunk in self.chunks), key=math.prod)
        return rows, width


def _most(most_rows: int | None, most_tokens: int | None, width: int, rows: int) -> int:
    """Return how many of some rows of a width may be in a chunk."""
    fitting = rows if most_tokens is None else max(1, most_tokens // width)
    return min(rows, fitting, most_rows or rows)


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


Augment = Callable[[list[int], Sequence[int]], list[int]]
"""Change of a row: from its token ids, and 1 for each special token, to new token ids."""


class Prepare(Protocol):
    """Tokenisation of the sentences of views, with the change of each view's rows.

    In evaluation it takes the keyword ``role``, that of all texts of the call; in training ``by_role``.
    """

    def __call__(
        self, views: Sequence[Sequence[str]], augmentations: Sequence[Augment | None], /, **options: Any
    ) -> TokenizedBatch:
        """Tokenise the sentences of views."""
        ...


TRAINING_TOKENS = 256
"""Number of tokens at which training truncates a sentence by default, if the model reads longer ones."""


class SentenceTokenizer:
    """Applies a template and tokenises; the sentence is truncated, never the template.

    Without a template ``max_length`` counts the special tokens, as tokenizers do. With one, or with prompts
    by role, it counts the tokens of the bare sentence, as the papers' code does. With prompts by role a row
    is truncated as a whole, each after as many tokens as one with the longest prompt.

    Args:
        tokenizer: Fast tokenizer with a pad token.
        config: Templates, prompts and lengths.
        position_offset: Position of a row's first token, 0 except for models of RoBERTa's family.

    Attributes:
        roles: Template by role, of the roles that have one of their own.
        evaluation_length: Maximum number of tokens of a sentence in evaluation, counted in the same way;
            None for no limit. By default that of training.
        fits: Maximum number of tokens of a sentence for which the model has positions; None for any.
        limit: Maximum number that the model is meant to read, at most `fits`; None for any.
        later: Number of tokens after each view's own in a row that holds all views; None where each view has
            rows of its own.

    Raises:
        ValueError: An argument is out of range, or the arguments do not fit together.
        ConfigError: The tokenizer is not a fast one, or has no pad token.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, config: EncodingConfig, position_offset: int = 0
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
        self.config = config
        self.roles: Mapping[str, str] = config.roles
        tokenizer.truncation_side = "right"
        self.tokenizer = tokenizer
        # Without a template a row holds what the tokenizer adds by itself, and one token of the sentence.
        bare = config.template is None and not self.roles
        self.least = 3 if not bare else max(3, tokenizer.num_special_tokens_to_add() + 1)
        self.max_length = self._checked(TRAINING_TOKENS if config.max_length is None else config.max_length)
        self.evaluation_length: int | None = self.max_length
        self.fits: int | None = None
        self.limit: int | None = None
        self.later: list[int] | None = None
        text = config.template
        self.template = None if text is None else fill_mask(tokenizer, "template", text)
        filled = [fill_mask(tokenizer, "view_templates", text) for text in config.view_templates or ()]
        self.view_templates = filled or None
        self.position_offset = position_offset

    def share_rows(self) -> None:
        """Let one row give the vectors of all views of a sentence, if it begins with each view's own row.

        That needs a causal model and the vector of the last token: no token sees those after it, so the last
        token of a beginning has the same vector in the whole row. CSE-SFP (Zhang et al. 2025, arXiv
        2505.00389) trains on two such views in a single forward pass. How far a view's token is from the end
        follows from the templates alone, as in `its code
        <https://github.com/ZBWpro/CSE-SFP/blob/5a5adc2b15f536ae2073ea4b84ef8b757724e08d/code/train.py>`_.
        The views then share their draws of dropout.
        """
        (before, after), *others = map(self.split, self.view_templates or [SLOT])
        if others and all(
            start == before and 0 < len(end) < len(after) and end == after[: len(end)]
            for start, end in others
        ):
            self.later = [0, *(len(after) - len(end) for _, end in others)]

    def rows_of(self, num_views: int) -> int:
        """Return the number of rows of an example with so many views in training."""
        return num_views if self.later is None else 1

    def set_fits(self, fits: int | None) -> None:
        """Set for how many tokens of a sentence the model has positions, and with it the lengths.

        Raises:
            ValueError: The model's limit leaves no room for a sentence.
        """
        config, self.fits = self.config, fits
        of_row = None if config.row_limit is None else config.row_limit - self.added
        known = (config.limit, fits, of_row)
        self.limit = min((count for count in known if count is not None), default=None)
        if config.max_length is None:
            self.max_length = self._checked(
                min(TRAINING_TOKENS, TRAINING_TOKENS if self.limit is None else self.limit)
            )
            self.evaluation_length = self.limit
        if config.evaluation_length != "training":
            self.set_evaluation_length(config.evaluation_length)

    def set_evaluation_length(self, max_length: int | None) -> None:
        """Set the number of tokens after which evaluation truncates a sentence, by default that of training.

        Args:
            max_length: Number of tokens; None for the model's limit.

        Raises:
            ValueError: The number leaves no room for a sentence, or is larger than what fits into the model's
                positions.
        """
        if max_length is not None and not self.least <= max_length <= (self.fits or max_length):
            raise ValueError(
                self._too_small(max_length, "" if self.fits is None else f" and at most {self.fits}")
            )
        self.evaluation_length = self.limit if max_length is None else max_length

    def _checked(self, max_length: int) -> int:
        if max_length < self.least:
            raise ValueError(self._too_small(max_length))
        return max_length

    def _too_small(self, max_length: int, most: str = "") -> str:
        added = f" The tokenizer adds {self.least - 1} tokens to each row." if self.least > 3 else ""
        return f"max_length must be at least {self.least}{most}, got {max_length}.{added}"

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
        return self._ids(sentences, self.template_of(role), self.evaluation_length)[0]

    def _ids(
        self,
        sentences: Sequence[str],
        template: str | None,
        max_length: int | None,
        augment: Augment | None = None,
    ) -> tuple[list[list[int]], int]:
        """Return the token ids of each sentence, and the number of sentences that were truncated."""
        texts = list(sentences)
        truncated: set[int] = set()
        row_length = self.row_length(template, max_length)
        if template is not None:
            prefix, suffix = template.split(SLOT)
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
        fits = self.fits if lengthened else None
        if fits is not None and any(len(row) > fits for row in ids):
            start, end = map(len, self.split(template or SLOT))
            # Without a template special tokens count among those that fit.
            longest = fits if template is None and not self.roles else start + fits + end
            truncated |= {row for row, tokens in enumerate(ids) if len(tokens) > longest}
            ids = truncate_rows(ids, longest, end)
        return [row or [self._empty_id] for row in ids], len(truncated)

    def _encode(self, texts: list[str] | str, **options: Any) -> BatchEncoding:
        options |= {"return_attention_mask": False, "return_token_type_ids": False}
        with _LOCK:
            encoded: BatchEncoding = self.tokenizer(texts, **options)
        return encoded

    def row_length(self, template: str | None, max_length: int | None) -> int | None:
        """Return the number of tokens after which a row is truncated; None if its sentence is, or nothing.

        A row that ends with the sentence is truncated as a whole, as after a prompt elsewhere.

        Args:
            template: Template of the row.
            max_length: Maximum number of tokens of a sentence; None for no limit.
        """
        if max_length is not None and self.roles:
            return max_length + self.added
        if template is None or max_length is None:
            return max_length
        if template.partition(SLOT)[2]:
            return None
        return max_length + self._added_by(template)

    def cut(self, texts: Sequence[str]) -> list[str]:
        """Return texts as far as evaluation reads them, cut after whole characters."""
        length, special = self.evaluation_length, self.tokenizer.num_special_tokens_to_add()
        return truncate_texts(self._encode, list(texts), None if length is None else max(1, length - special))

    @property
    def row_tokens(self) -> int | None:
        """Number of tokens to which evaluation truncates a row, template included; None for any number."""
        length = self.evaluation_length
        return (
            None if length is None else length + (self.added if self.roles else self._added_by(self.template))
        )

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
        self,
        sentences: Sequence[str],
        chunk_tokens: int,
        denoise: bool = False,
        text_edit: TextEdit = "none",
        role: Role | None = None,
    ) -> TokenizedBatch:
        """Edit and tokenise as in evaluation, in chunks of at most ``chunk_tokens`` padded tokens.

        Args:
            sentences: Texts, N of them.
            chunk_tokens: Maximum number of tokens of a chunk, padding included.
            denoise: Whether to append the bare templates to subtract.
            text_edit: Edit of each sentence.
            role: Role of all sentences; None for ``template``.
        """
        if text_edit != "none":
            sentences = [edit(text, text_edit) for text in sentences]
        template = self.template_of(role)
        ids, truncated = self._ids(sentences, template, self.evaluation_length)
        batch = self._chunk([ids], [template], chunk_tokens, denoise)
        return replace(batch, truncated=truncated)

    def evaluation_rows(
        self, views: Sequence[Sequence[str]], augmentations: Sequence[Augment | None], **settings: Any
    ) -> TokenizedBatch:
        """Tokenise the views of a batch by `rows`, one after the other; nothing is augmented."""
        return self.rows([text for view in views for text in view], **settings)

    def training_rows(
        self,
        views: Sequence[Sequence[str]],
        augmentations: Sequence[Augment | None],
        chunk_tokens: int,
        by_role: bool = True,
    ) -> TokenizedBatch:
        """Tokenise the views of a batch as in training, one view after the other.

        With prompts by role the first view is a query, and each further one a document.

        Args:
            views: Sentences of each view.
            augmentations: Augmentation of each view, None for an unchanged one.
            chunk_tokens: Maximum number of tokens of a chunk, padding included.
            by_role: Whether the views have roles; otherwise ``template`` is that of all.

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
        later = self.later if all(view == views[0] for view in views) else None
        if later is not None:
            views, templates, augmentations = views[:1], templates[:1], augmentations[:1]
        ids = [
            self._ids(sentences, template, self.max_length, augment)[0]
            for sentences, template, augment in zip(views, templates, augmentations, strict=True)
        ]
        batch = self._chunk(ids, templates, chunk_tokens, self.config.denoise != "none")
        for rows in batch.chunks if later is not None else ():
            rows["view_at"] = rows["attention_mask"].sum(dim=1, keepdim=True) - 1 - torch.tensor(later)
        return batch

    def _chunk(
        self,
        ids: list[list[list[int]]],
        templates: Sequence[str | None],
        chunk_tokens: int,
        denoise: bool,
    ) -> TokenizedBatch:
        """Divide the rows of views, each with its template, among chunks."""
        rows = [row for view in ids for row in view]
        pairs = zip(templates, ids, strict=True)
        at = [position for template, view in pairs for position in self._mask_at(template, view)]
        mask_at = at if len(at) == len(rows) else None
        batch = chunk(rows, chunk_tokens, self.tokenizer.pad_token_id, mask_at)
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
        order = torch.cat([batch.restore, torch.arange(len(baseline), len(baseline) + len(texts))])
        num_tokens = batch.num_tokens + sum(map(len, texts))
        return TokenizedBatch([*batch.chunks, extra], order, num_tokens, torch.tensor(baseline))

    def longest(self, count: int) -> dict[str, Tensor]:
        """Return a chunk of ``count`` rows of the maximum length."""
        template = max(self._templates, key=self._added_by)
        prefix, suffix = self.split(template or SLOT)
        length = self.max_length + self._added_by(template)
        filler = self._encode("a", add_special_tokens=False)["input_ids"][:1] or [self._empty_id]
        row = [*prefix, *filler * (length - len(prefix) - len(suffix)), *suffix]
        return pad([row] * count, length, 0, mask_at=self._mask_at(template, [row] * count) or None)

    @property
    def added(self) -> int:
        """Number of tokens of a row beside the ``max_length`` of a sentence, in the longest template."""
        return max(map(self._added_by, self._templates))

    @property
    def _templates(self) -> Sequence[str | None]:
        return self.template, *(self.view_templates or []), *self.roles.values()

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


def chunk(
    ids: list[list[int]],
    chunk_tokens: int,
    pad_id: int,
    mask_at: Sequence[int] | None = None,
) -> TokenizedBatch:
    """Divide rows into chunks, longest rows first, and pad each chunk to its longest row.

    Args:
        ids: Token ids of each row.
        chunk_tokens: Maximum number of tokens of a chunk, padding included; a longer row is one chunk.
        pad_id: Id of the pad token.
        mask_at: Position of each row's mask token that is pooled, with padding on the right; None without.
    """
    lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
    order = np.argsort(-lengths, kind="stable")
    chunks = [
        pad(
            [ids[row] for row in order[span]],
            int(lengths[order[span.start]]),
            pad_id,
            None if mask_at is None else [mask_at[row] for row in order[span]],
        )
        for span in spans(lengths[order], chunk_tokens)
    ]
    return TokenizedBatch(chunks, torch.from_numpy(np.argsort(order)), int(lengths.sum()))


def spans(lengths: np.ndarray, chunk_tokens: int) -> list[slice]:
    """Divide rows into chunks such that padding and number of chunks cost the least, by dynamic programming.

    Each chunk costs its padded tokens and a `CHUNK_COST`-th of ``chunk_tokens``.

    Args:
        lengths: Number of tokens of each row, in descending order.
        chunk_tokens: As for `chunk`.

    Returns:
        The chunks, in order.
    """
    cost = np.zeros(len(lengths) + 1, dtype=np.int64)  # of the rows from each one on
    ends = [0] * len(lengths)
    for start in reversed(range(len(lengths))):
        width = int(lengths[start])
        most = min(max(1, chunk_tokens // width), len(lengths) - start)
        # Of equal costs that of the largest chunk.
        costs = width * np.arange(most, 0, -1) + cost[start + 1 : start + most + 1][::-1]
        index = int(costs.argmin())
        ends[start] = start + most - index
        cost[start] = costs[index] + chunk_tokens // CHUNK_COST
    chunks, start = [], 0
    while start < len(lengths):
        chunks.append(slice(start, ends[start]))
        start = ends[start]
    return chunks


def pad(
    rows: Sequence[Sequence[int]],
    length: int,
    pad_id: int,
    mask_at: Sequence[int] | None = None,
) -> dict[str, Tensor]:
    """Pad rows of token ids to one length, on the right.

    Args:
        rows: Token ids of each row.
        length: Length of the padded rows.
        pad_id: Id of the pad token.
        mask_at: As for `chunk`.

    Returns:
        ``input_ids`` and ``attention_mask``, each (rows, length) in int64, and ``mask_at``, (rows, 1).
    """
    input_ids = np.full((len(rows), length), pad_id, dtype=np.int64)
    attention_mask = np.zeros((len(rows), length), dtype=np.int64)
    for index, row in enumerate(rows):
        input_ids[index, : len(row)] = row
        attention_mask[index, : len(row)] = 1
    padded = {"input_ids": torch.from_numpy(input_ids), "attention_mask": torch.from_numpy(attention_mask)}
    return padded if mask_at is None else padded | {"mask_at": torch.tensor(mask_at)[:, None]}

"""Collation of table rows into a batch: all views of all examples, tokenised together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from sts_lightning.core.choices import EMPTY, Augmentation, LabelKind
from sts_lightning.core.processes import WHOLE_BATCH, Shard
from sts_lightning.data.positives import KnownClasses, KnownPositives
from sts_lightning.data.table import PART

RowsT = TypeVar("RowsT")

Prepare = Callable[[Sequence[list[str]], Sequence[Augmentation | None]], RowsT]
"""Map from the sentences and the augmentation of each view to the encoder's input."""


@dataclass(frozen=True)
class View:
    """One of the embedded sentences of an example.

    Attributes:
        column: Column of the sentence.
        augmentation: Augmentation of its tokens, if any.
    """

    column: str
    augmentation: Augmentation | None = None


@dataclass
class Batch(Generic[RowsT]):
    """A batch of B examples with V views, of which this process embeds one shard.

    Attributes:
        rows: Tokenised sentences of the shard, view-major, in the form that the encoder takes. An empty
            shard holds the first example instead, since every process has to run its model.
        num_views: V.
        labels: Labels of the whole batch, shape (B,): scores in float32 or class indices in int64; None if
            examples have no label.
        size: B.
        shard: Part of the batch that ``rows`` holds.
        texts: Sentences of ``rows`` as they are in the data, those of each view. A hard negative that a row
            lacks is another sentence of it.
        sentence_ids: Number of each sentence of the whole batch, shape (V + K, B): equal sentences have the
            same. A third view of one column is numbered separately: its template makes it a negative
            (CoT-BERT). `EMPTY` stands for a hard negative that a row lacks. Texts with a class are numbered
            by it. The last K rows, mostly none, are of `KnownPositives.further_ids`. None: not numbered.
        part: Name of the part of joint data that the examples are from.
    """

    rows: RowsT
    num_views: int
    labels: Tensor | None
    size: int
    shard: Shard = WHOLE_BATCH
    texts: Sequence[Sequence[str]] = ()
    sentence_ids: Tensor | None = None
    part: str = ""


@dataclass
class ViewCollator(Generic[RowsT]):
    """Collate function that turns examples into a `Batch`.

    Attributes:
        views: Views of each example.
        label: Kind of label in the column ``label``.
        prepare: Function that turns the sentences of the views into the encoder's input (tokenises, divides
            into chunks, pads).
        shard: Part of each batch that this process embeds.
        known: What the training data say of texts that meet in a batch, if it is anchors and positives or
            texts with classes.
        numbered: Whether batches have the numbers of their sentences.
    """

    views: Sequence[View]
    label: LabelKind
    prepare: Prepare[RowsT]
    shard: Shard = WHOLE_BATCH
    known: KnownPositives | KnownClasses = field(default_factory=KnownPositives)
    numbered: bool = True

    def __call__(self, examples: Sequence[dict[str, Any]]) -> Batch[RowsT]:
        """Collate examples, each a mapping from column to value."""
        embedded = examples
        if self.shard.world_size > 1:
            embedded = examples[self.shard.slice_of(len(examples))] or examples[:1]
        sentences = [[_text(example, view.column) for example in embedded] for view in self.views]
        labels = None
        if self.label != "none":
            dtype = torch.float32 if self.label == "score" else torch.int64
            labels = torch.tensor([example["label"] for example in examples], dtype=dtype)
        rows = self.prepare(sentences, [view.augmentation for view in self.views])
        ids = torch.tensor(self._numbers(examples)) if self.numbered else None
        return Batch(rows, len(self.views), labels, len(examples), self.shard, sentences, ids)

    def _numbers(self, examples: Sequence[dict[str, Any]]) -> list[list[int]]:
        numbers: dict[tuple[str, bool], int] = {}
        columns = [view.column for view in self.views]
        texts = [[example[name] for example in examples] for name in columns]
        if isinstance(self.known, KnownClasses):
            return self.known.ids(texts)
        # The second view of a sentence is its positive, the same text; a third one is read as a negative.
        ids = [
            [
                EMPTY
                if text is None
                else numbers.setdefault((text, name in columns[:v] and v > 1), len(numbers))
                for text in texts[v]
            ]
            for v, name in enumerate(columns)
        ]
        return ids + self.known.further_ids(texts, ids)


def _text(example: Mapping[str, Any], column: str) -> str:
    """Return a text of an example, in an empty place the shorter one of anchor and positive."""
    text: str | None = example[column]
    return min(example["sentence1"], example["sentence2"], key=len) if text is None else text


@dataclass
class JointCollator(Generic[RowsT]):
    """Collate function of joint data, whose batches have the examples of one part each.

    Attributes:
        parts: Collate function of each part.
    """

    parts: Mapping[str, ViewCollator[RowsT]]

    def __call__(self, examples: Sequence[dict[str, Any]]) -> Batch[RowsT]:
        """Collate examples of one part, whose name is in their column ``part``."""
        name = examples[0][PART]
        return replace(self.parts[name](examples), part=name)

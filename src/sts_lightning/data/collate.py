"""From rows of a table to one batch: all views of all examples, tokenised together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from sts_lightning.data.augment import Augmentation
from sts_lightning.data.pair_tables import LabelKind
from sts_lightning.distributed import WHOLE_BATCH, Shard

RowsT = TypeVar("RowsT")

Prepare = Callable[[Sequence[list[str]], Sequence[Augmentation | None]], RowsT]
"""From the sentences of each view, and what changes their tokens, to the encoder's input."""


@dataclass(frozen=True)
class View:
    """One of the sentences of an example that are embedded.

    Attributes:
        column: Where it stands.
        augmentation: What changes its tokens, if anything.
    """

    column: str
    augmentation: Augmentation | None = None


@dataclass
class Batch(Generic[RowsT]):
    """A batch of B examples with V views, of which this process embeds one shard.

    Attributes:
        rows: The tokenised sentences of the shard, view-major, in the form that the encoder takes. Those
            of the first example if the shard is empty, since every process has to run its model.
        num_views: V.
        labels: Scores in float32 or class indices in int64, of the whole batch, shape (B,); None without.
        size: B.
        shard: The part of the batch that ``rows`` holds.
    """

    rows: RowsT
    num_views: int
    labels: Tensor | None
    size: int
    shard: Shard = WHOLE_BATCH


class ViewCollator(Generic[RowsT]):
    """Turns examples into a `Batch`.

    Args:
        views: What is embedded of each example.
        label: The kind of label in the column ``label``.
        prepare: Turns the sentences of the views into the encoder's input (tokenises, cuts into chunks,
            pads).
        shard: The part of each batch that this process embeds.
    """

    def __init__(
        self, views: Sequence[View], label: LabelKind, prepare: Prepare[RowsT], shard: Shard = WHOLE_BATCH
    ) -> None:
        self.views = tuple(views)
        self.label = label
        self.prepare = prepare
        self.shard = shard

    def __call__(self, examples: Sequence[dict[str, Any]]) -> Batch[RowsT]:
        """Collate examples, each a mapping from column to value."""
        own = examples[self.shard.slice_of(len(examples))] or examples[:1]
        sentences = [[example[view.column] for example in own] for view in self.views]
        labels = None
        if self.label != "none":
            dtype = torch.float32 if self.label == "score" else torch.int64
            labels = torch.tensor([example["label"] for example in examples], dtype=dtype)
        rows = self.prepare(sentences, [view.augmentation for view in self.views])
        return Batch(rows, len(self.views), labels, len(examples), self.shard)

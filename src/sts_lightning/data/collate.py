"""From rows of a table to one batch: all views of all examples, tokenised together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from sts_lightning.data.tables import LabelKind

RowsT = TypeVar("RowsT")


@dataclass
class Batch(Generic[RowsT]):
    """A batch of B examples with V views.

    Attributes:
        rows: The V*B tokenised sentences, view-major, in the form that the encoder takes.
        num_views: V.
        labels: Scores in float32 or class indices in int64, shape (B,); None without labels.
    """

    rows: RowsT
    num_views: int
    labels: Tensor | None


class ViewCollator(Generic[RowsT]):
    """Turns examples into a `Batch`.

    Args:
        columns: The column that each view reads.
        label: The kind of label in the column ``label``.
        prepare: Turns V*B sentences into the encoder's input (tokenises, cuts into chunks, pads).
    """

    def __init__(
        self, columns: Sequence[str], label: LabelKind, prepare: Callable[[list[str]], RowsT]
    ) -> None:
        self.columns = tuple(columns)
        self.label = label
        self.prepare = prepare

    def __call__(self, examples: Sequence[dict[str, Any]]) -> Batch[RowsT]:
        """Collate examples, each a mapping from column to value."""
        sentences = [example[column] for column in self.columns for example in examples]
        labels = None
        if self.label != "none":
            dtype = torch.float32 if self.label == "score" else torch.int64
            labels = torch.tensor([example["label"] for example in examples], dtype=dtype)
        return Batch(self.prepare(sentences), len(self.columns), labels)

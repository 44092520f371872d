"""What is drawn anew in each epoch: hard negatives of a list, and a text of the same class."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch.utils.data

from sts_lightning.data.data_set import DataSet
from sts_lightning.data.table import CLASS, NEGATIVES, PART, Table

Draw = Callable[[dict[str, Any], random.Random], dict[str, Any]]
"""Map from an example to its columns that are drawn."""


class DrawnTable(torch.utils.data.Dataset[dict[str, Any]]):
    """Rows of a table with columns that are drawn anew in each epoch.

    A draw depends on ``(seed, epoch, row)`` alone, so a worker process and a resumed run have the same.

    Args:
        table: Training examples.
        draws: Draw of each part that has one, by its name.
        seed: Random seed.

    Attributes:
        epoch: Epoch of the next examples.
    """

    def __init__(self, table: Table, draws: Mapping[str, Draw], seed: int) -> None:
        self.table = table
        self.draws = draws
        self.seed = seed
        self.epoch = 0

    def __len__(self) -> int:
        return len(self.table)

    def __getitems__(self, rows: list[int]) -> list[dict[str, Any]]:
        """Return the examples of a batch; `DataLoader` asks for them so."""
        examples = self.table.__getitems__(rows)
        for row, example in zip(rows, examples, strict=True):
            if (draw := self.draws.get(example.get(PART, ""))) is not None:
                example |= draw(example, random.Random(f"{self.seed} {self.epoch} {row}"))
        return examples


@dataclass(frozen=True)
class HardNegatives:
    """Draw of hard negatives from the list of a row, without replacement; None where it has fewer.

    Attributes:
        columns: Columns that are drawn.
    """

    columns: Sequence[str]

    def __call__(self, example: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        """Return hard negatives."""
        listed, most = example[NEGATIVES], len(self.columns)
        drawn = rng.sample(listed, min(most, len(listed)))
        return dict(zip(self.columns, drawn + [None] * (most - len(drawn)), strict=True))


@dataclass(frozen=True)
class SameClass:
    """Draw of another text of the class of a row.

    Attributes:
        column: Column that is drawn.
        texts: Different texts of each class, at least two.
    """

    column: str
    texts: Mapping[str, Sequence[str]]

    def __call__(self, example: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        """Return a text; each of the others is as likely."""
        texts = self.texts[example[CLASS]]
        text = texts[rng.randrange(len(texts) - 1)]
        return {self.column: texts[-1] if text == example["sentence1"] else text}


def draw_of(data_set: DataSet, table: Table) -> Draw | None:
    """Return what is drawn for the rows of a table; None: nothing is."""
    drawn = [view.column for view in data_set.views if view.column not in table.columns]
    if data_set.classes:
        texts: dict[str, dict[str, None]] = defaultdict(dict)
        for text, name in zip(table["sentence1"], table[CLASS], strict=True):
            texts[name][text] = None
        [column] = drawn
        return SameClass(column, {name: list(of_class) for name, of_class in texts.items()})
    return HardNegatives(drawn) if drawn else None


def empty_places(data_set: DataSet, table: Table) -> int:
    """Return the number of hard negatives that the rows of a table lack, of those that are drawn for each."""
    if not isinstance(draw := draw_of(data_set, table), HardNegatives):
        return 0
    most = len(draw.columns)
    return sum(max(0, most - len(listed)) for listed in table[NEGATIVES])

"""What a data set is: what its settings decide, and a function that reads its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sts_lightning.core.choices import LabelKind
from sts_lightning.data.collate import View
from sts_lightning.data.table import SCORE_RANGE, SourceCount, Table, sentence_columns
from sts_lightning.data.tasks import Dev, Task

TRAINING, DEV, TEST = "training pairs", "dev pairs", "test pairs"
"""Use of a file of the user's own pairs, in counts and messages."""


def column_views(count: int) -> tuple[View, ...]:
    """Return views of one column each."""
    return tuple(View(column) for column in sentence_columns(count))


@dataclass(frozen=True)
class Splits:
    """What a data set has read.

    Attributes:
        train: Training examples, columns sentence1[, sentence2, ...][, label], one source after another. Of
            rows with lists also ``negatives`` and ``line``, of texts with classes ``class``; columns of views
            that it lacks are drawn in each epoch.
        dev: Scored pairs, or queries, on which checkpoints are compared.
        tests: Tasks on which the trained model is reported.
        other_counts: Rows read of dev and test data.
        score_range: Range of the training scores in their sources; in ``train`` they lie in [0, 5].
        parts: What each part of joint data has read; none of other data.
    """

    train: Table
    dev: Dev
    tests: Sequence[Task]
    other_counts: Sequence[SourceCount] = ()
    score_range: tuple[float, float] = SCORE_RANGE
    parts: Mapping[str, Splits] = field(default_factory=dict)


@dataclass(frozen=True)
class DataSet:
    """Training examples with dev and test pairs, of which no file has been read yet.

    A data set is a function from its settings to this: it rejects wrong settings by a ValueError that begins
    with the name of the argument. ``conf/data/NAME.yaml`` names the function in ``_target_``.

    Attributes:
        read: Function that reads the files; it raises a DataError if one is missing or malformed.
        views: Views of an example, by default a pair.
        classes: Whether the examples are texts with classes, of which those of a class are similar.
        label: Kind of label of an example.
        unit: Noun for the examples.
        num_classes: K, if the label is a class.
        published_rows: Number of training examples in the papers; None for toy data and the user's own files.
        parts: Data sets that joint data consist of, by name; its other attributes are those of none of them.
        shares: Share of each part in the batches of an epoch; None: each example of each part once.
        keep_general: Whether the seven STS tasks are among the test tasks beside dev data of the user's.
    """

    read: Callable[[], Splits]
    views: tuple[View, ...] = column_views(2)
    label: LabelKind = "score"
    unit: str = "pairs"
    num_classes: int = 0
    published_rows: int | None = None
    parts: Mapping[str, DataSet] = field(default_factory=dict)
    shares: Mapping[str, float] | None = None
    classes: bool = False
    keep_general: bool = False

    @property
    def is_rows(self) -> bool:
        """Whether an example is a query and texts that answer it or not: several columns and no label."""
        return self.label == "none" and len({view.column for view in self.views}) > 1

    @property
    def top_label(self) -> float:
        """Highest label: the top of the score range, or the last class."""
        return self.num_classes - 1 if self.label == "class" else SCORE_RANGE[1]

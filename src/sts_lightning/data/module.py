"""The LightningDataModule that every data set builds on."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import lightning.pytorch as pl
import torch
from datasets import Dataset, concatenate_datasets
from torch.utils.data import DataLoader

from sts_lightning.core.choices import LabelKind, TextFound
from sts_lightning.core.distributed import Shard
from sts_lightning.core.errors import CheckpointError, DataError
from sts_lightning.core.text import check_range, counted
from sts_lightning.data.collate import Prepare, View, ViewCollator
from sts_lightning.data.counts import TrainingCount
from sts_lightning.data.files import summary
from sts_lightning.data.loader import ResumableLoader, Share
from sts_lightning.data.readers.sts_sets import STSTask, text_found
from sts_lightning.data.tables import SCORE_RANGE, SourceCount, hash_tables

log = logging.getLogger(__name__)

COLUMNS = ("sentence1", "sentence2", "sentence3")
"""Names of the first sentence columns of a table."""

BATCH_SIZES, SEEDS, WORKERS = (1, 2**20), (0, 2**32 - 1), (0, 1024)
"""Least and greatest batch size, seed (the range of NumPy's) and number of workers."""

TRAINING, DEV, TEST = "training pairs", "dev pairs", "test pairs"
"""Use of a file of the user's own pairs, in counts and messages."""

DEV_BATCH_SIZE = 128
"""Pairs in a dev batch: enough rows for chunks of similar length."""


def sentence_columns(count: int) -> tuple[str, ...]:
    """Return the names of the first sentence columns of a table, as many as there are views."""
    return tuple(f"sentence{number}" for number in range(1, count + 1))


class SentenceDataModule(pl.LightningDataModule, ABC):
    """Training examples, scored dev pairs for model selection, and test tasks for the report.

    A subclass sets ``num_views`` and ``label`` and reads its files in `load_train`, `load_dev` and
    `load_tests`. `setup` reads everything once; call it before weights are loaded, so that a malformed row
    fails within seconds. The data does not know the model: `connect` supplies the tokenisation before
    ``trainer.fit(module, datamodule)``.

    Args:
        batch_size: Examples in a training batch, over all processes.
        seed: Random seed of the order of training examples.
        num_workers: Number of worker processes that tokenise in the background.

    Attributes:
        num_views: V, the number of sentences embedded per example.
        label: Kind of label of an example.
        unit: Noun for the examples.
        num_classes: K, if the label is a class.
        counts: Rows read and dropped, by source; filled by `setup`.
        sources: Those of the training examples among them.
        trained_on: Number of training examples next to the published one; set by `setup`.
        epoch_batches: Limit of the batches in an epoch, or None.
        batches_ahead: Batches that a thread prepares ahead of the consumer, if there are no worker processes.
        train, dev, tests: Training table, dev table and test tasks; filled by `setup`.
        shares: Rows of each source and the number of them in an epoch; set by `setup`.
    """

    num_views: int = 2
    label: LabelKind = "score"
    unit: str = "pairs"
    num_classes: int = 0
    trained_on: TrainingCount
    shares: list[Share]
    sources: list[SourceCount]

    def __init__(self, batch_size: int, seed: int, num_workers: int = 0) -> None:
        super().__init__()
        check_range("batch_size", batch_size, *BATCH_SIZES)
        check_range("seed", seed, *SEEDS)
        check_range("num_workers", num_workers, *WORKERS)
        self.batch_size = batch_size
        self.seed = seed
        self.num_workers = num_workers
        self.counts: list[SourceCount] = []
        self.epoch_batches: int | None = None
        self.batches_ahead = 0
        self._loaded = False
        self._prepare: tuple[Prepare[Any], Prepare[Any]] | None = None

    @property
    def top_label(self) -> float:
        """Highest label: the top of the score range, or the last class."""
        return self.num_classes - 1 if self.label == "class" else SCORE_RANGE[1]

    @abstractmethod
    def load_train(self) -> Dataset:
        """Return the training table: columns sentence1, sentence2[, sentence3, ...][, label]."""

    @abstractmethod
    def load_dev(self) -> Dataset:
        """Return the scored pairs on which checkpoints are compared."""

    def load_tests(self) -> list[STSTask]:
        """Return the tasks on which the trained model is reported; none by default."""
        return []

    def without_dev(self, train: Dataset) -> Dataset:
        """Return the training examples that dev pairs leave, by default all; count the others."""
        return train

    def setup(self, stage: str | None = None) -> None:
        """Read and check all files on the first call; later calls do nothing.

        Args:
            stage: Lightning's stage; all splits are read in each of them.

        Raises:
            DataError: A file is missing or malformed, or fewer than two training examples are left.
        """
        if self._loaded:
            return
        self.counts.clear()
        self.train = self.load_train()
        self.sources = list(self.counts)
        self.dev, self.tests = self.load_dev(), self.load_tests()
        self.train = self.without_dev(self.train)
        self.shares = [(len(self.train), len(self.train))]
        weighted = any(source.weight != 1 for source in self.sources)
        if weighted:
            self.shares = [(source.kept, source.drawn) for source in self.sources]
        self.trained_on = self._count(self.sources)
        if self.epoch_rows < 2:
            why = f": {self.trained_on.reasons}" if self.trained_on.reasons else ""
            left = counted(self.epoch_rows, "training example")
            raise DataError(
                f"{left} left, but training needs at least two{why}.", key="path" if weighted else None
            )
        for count in self.counts:
            count.report()
        if self.trained_on.differs:
            log.info("on other data than published: %s", self.trained_on)
        self._loaded = True

    def own_score(self, label: float) -> float:
        """Return the score that a training pair has in its source, for messages."""
        return label

    def state_dict(self) -> dict[str, str]:
        """Return a hash of the tables that the training reads."""
        return {"tables": self._tables}

    def load_state_dict(self, state_dict: dict[str, str]) -> None:
        """Check that the tables are those that the run was stopped with.

        Raises:
            CheckpointError: They have changed.
        """
        if state_dict["tables"] != self._tables:
            raise CheckpointError(
                "the training or dev examples have changed since the run was stopped.",
                key="data",
                hint="Restore the files, or train in a new folder.",
            )

    @cached_property
    def _tables(self) -> str:
        return hash_tables([self.train, self.dev])

    @property
    def text(self) -> TextFound | None:
        """Text of dev and test sentences, if they come from SentEval's files."""
        return text_found([self.dev, *(table for task in self.tests for table in task.subsets.values())])

    @property
    def published_rows(self) -> int | None:
        """Number of training examples in the papers; None for toy data and the user's own files."""
        return None

    def _count(self, sources: list[SourceCount]) -> TrainingCount:
        dropped = Counter[str]()
        for source in sources:
            dropped.update(source.dropped)
        names = summary([source.source for source in sources], " + ")
        return TrainingCount(names, self.unit, len(self.train), self.published_rows, dict(dropped))

    @property
    def epoch_rows(self) -> int:
        """Number of training examples in an epoch, of which weights of sources may repeat or omit some."""
        return sum(drawn for _, drawn in self.shares)

    def read_sources(self, sources: Mapping[str, float], read: Callable[[str], Dataset]) -> Dataset:
        """Read the training sources into one table, one after another.

        Args:
            sources: Weight of each source.
            read: Reader of a source, which appends its `SourceCount`.
        """
        tables = []
        for source, weight in sources.items():
            tables.append(read(source))
            self.counts[-1].weight = weight
        return tables[0] if len(tables) == 1 else concatenate_datasets(tables)

    @property
    def views(self) -> tuple[View, ...]:
        """Views of an example: by default one column each."""
        return tuple(View(column) for column in sentence_columns(self.num_views))

    def connect(self, train: Prepare[Any], evaluation: Prepare[Any]) -> None:
        """Set the functions that turn sentences into the encoder's input.

        Args:
            train: Tokenisation of training batches, such as ``encoder.prepare(8192, training=True)``.
            evaluation: Tokenisation of dev batches, such as ``encoder.prepare(8192, training=False)``.
        """
        self._prepare = (train, evaluation)

    def _connected(self) -> tuple[Prepare[Any], Prepare[Any]]:
        """Return the functions given to `connect`.

        Raises:
            RuntimeError: `connect` has not been called.
        """
        if self._prepare is None:
            raise RuntimeError(
                f"{type(self).__name__} has no tokenisation yet; before training, call "
                "data.connect(encoder.prepare(8192, training=True), encoder.prepare(8192, training=False))."
            )
        return self._prepare

    def train_dataloader(self) -> ResumableLoader:
        """Return shuffled training batches."""
        prepare, _ = self._connected()
        collate = ViewCollator(self.views, self.label, prepare, Shard.current())
        return ResumableLoader(
            self.train,
            self.batch_size,
            collate,
            self.seed,
            self.num_workers,
            self.epoch_batches,
            self.batches_ahead,
            self.shares,
        )

    def val_dataloader(self) -> DataLoader[Any]:
        """Return the dev pairs in file order."""
        _, prepare = self._connected()
        views = [View(column) for column in COLUMNS[:2]]
        collate = ViewCollator(views, "score", prepare, Shard.current())
        # A generator of its own: the loader would otherwise draw from the one that dropout uses.
        generator = torch.Generator().manual_seed(self.seed)
        return DataLoader(self.dev, batch_size=DEV_BATCH_SIZE, collate_fn=collate, generator=generator)

"""The LightningDataModule that every data set builds on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from datasets import Dataset
from torch.utils.data import DataLoader

from sts_lightning.data.collate import Prepare, View, ViewCollator
from sts_lightning.data.loader import ResumableLoader
from sts_lightning.data.pair_tables import SCORE_RANGE, LabelKind, SourceCount
from sts_lightning.data.readers.senteval import STSTask, load_sts_tasks, load_stsb
from sts_lightning.distributed import Shard
from sts_lightning.errors import ConfigError, DataError

COLUMNS = ("sentence1", "sentence2", "sentence3")


class SentenceDataModule(pl.LightningDataModule, ABC):
    """Training examples, scored dev pairs to select by, and test tasks to report.

    A subclass sets ``num_views`` and ``label`` when it is built and reads its files in `load_train`,
    `load_dev` and `load_tests`. `load` reads everything once, before any weight is loaded, so that a
    bad row costs seconds.

    Args:
        batch_size: Examples in a training batch, of all processes that train together.
        seed: Seed of the order of training examples.
        num_workers: Processes that tokenise ahead.

    Attributes:
        num_views: V, how many sentences of an example are embedded.
        label: The kind of label that comes with an example.
        num_classes: K, where the label is a class.
        counts: Rows read and dropped, by source; filled by `load`.
    """

    num_views: int = 2
    label: LabelKind = "score"
    num_classes: int = 0

    def __init__(self, batch_size: int, seed: int, num_workers: int = 0) -> None:
        super().__init__()
        if batch_size < 2:
            raise ConfigError(f"data.batch_size must be at least 2, got {batch_size}.")
        if num_workers < 0:
            raise ValueError(f"num_workers must not be negative, got {num_workers}.")
        self.batch_size = batch_size
        self.seed = seed
        self.num_workers = num_workers
        self.counts: list[SourceCount] = []
        self.epoch_batches: int | None = None

    @property
    def top_label(self) -> float:
        """The highest label: that of the score range, or the last class."""
        return self.num_classes - 1 if self.label == "class" else SCORE_RANGE[1]

    @abstractmethod
    def load_train(self) -> Dataset:
        """The training table: columns sentence1, sentence2[, sentence3][, label]."""

    @abstractmethod
    def load_dev(self) -> Dataset:
        """Scored pairs on which checkpoints are compared."""

    def load_tests(self) -> list[STSTask]:
        """The tasks that the finished model is reported on; none by default."""
        return []

    def load(self) -> None:
        """Read and check all files.

        Raises:
            DataError: A file is missing or malformed.
        """
        self.train, self.dev, self.tests = self.load_train(), self.load_dev(), self.load_tests()
        if len(self.train) < 2:
            reasons = [
                f"{why}: {count:,}"
                for source in self.counts
                for why, count in source.dropped.items()
                if count
            ]
            raise ConfigError(
                f"data: {len(self.train)} training example(s) are left; training needs at least two."
                + (f" Left out: {'; '.join(reasons)}." if reasons else "")
            )
        for count in self.counts:
            count.report()

    @property
    def views(self) -> tuple[View, ...]:
        """What is embedded of an example: by default one column for each view."""
        return tuple(View(column) for column in COLUMNS[: self.num_views])

    def connect(self, train: Prepare[Any], evaluation: Prepare[Any]) -> None:
        """Say how sentences become the encoder's input in training, and in evaluation."""
        self._prepare_train, self._prepare_evaluation = train, evaluation

    def train_dataloader(self) -> ResumableLoader:
        """Shuffled training batches."""
        collate = ViewCollator(self.views, self.label, self._prepare_train, Shard.current())
        return ResumableLoader(
            self.train, self.batch_size, collate, self.seed, self.num_workers, self.epoch_batches
        )

    def val_dataloader(self) -> DataLoader[Any]:
        """The dev pairs in file order; 128 of them give the chunks enough rows to sort."""
        views = [View(column) for column in COLUMNS[:2]]
        collate = ViewCollator(views, "score", self._prepare_evaluation, Shard.current())
        # A generator of its own: a loader would otherwise draw from the one that dropout uses.
        generator = torch.Generator().manual_seed(self.seed)
        return DataLoader(self.dev, batch_size=128, collate_fn=collate, generator=generator)


class SentEvalData(SentenceDataModule):
    """Training data of any kind, selected by STS-B dev and reported on the seven test sets.

    Args:
        root: Data root in SentEval's layout.
        batch_size: Examples in a training batch.
        seed: Seed of the order of training examples.
        num_workers: Processes that tokenise ahead.
    """

    def __init__(self, root: str, batch_size: int, seed: int, num_workers: int = 0) -> None:
        super().__init__(batch_size, seed, num_workers)
        self.root = root

    def load_dev(self) -> Dataset:
        """STS-B dev."""
        return load_stsb(self.root, "dev")

    def load_tests(self) -> list[STSTask]:
        """The seven test sets."""
        return load_sts_tasks(self.root)

    def find(self, path: str | None, *names: str) -> Path:
        """The given file, or else the first of the names that is there under the root.

        Raises:
            DataError: None of them is.
        """
        if path is not None:
            return Path(path)
        for name in names:
            if (Path(self.root) / name).is_file():
                return Path(self.root) / name
        raise DataError(f"no {' or '.join(names)} here; name the file with data.path=...", self.root)

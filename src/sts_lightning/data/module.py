"""The LightningDataModule of all data sets."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader

from sts_lightning.core.choices import TextFound
from sts_lightning.core.errors import CheckpointError, DataError, check_range, counted
from sts_lightning.core.processes import Shard
from sts_lightning.data.collate import Batch, JointCollator, Prepare, ViewCollator
from sts_lightning.data.counts import TrainingCount
from sts_lightning.data.data_set import DataSet, column_views
from sts_lightning.data.draws import DrawnTable, draw_of
from sts_lightning.data.loader import PartRows, ResumableLoader
from sts_lightning.data.positives import (
    KnownClasses,
    KnownPositives,
    TokenIds,
    known_classes,
    known_positives,
)
from sts_lightning.data.ranking import Ranking
from sts_lightning.data.readers.sts_sets import tables_of, text_found
from sts_lightning.data.table import SCORE_RANGE, hash_tables, sources_of, starts_of_lines, summary
from sts_lightning.data.tasks import hash_dev, hashes_of, scored_tasks

log = logging.getLogger(__name__)

DEV_BATCH_SIZE = 128
"""Pairs in a dev batch: enough rows for chunks of similar length."""

DEV_TEXTS = 512
"""Queries, or candidates, in a dev batch."""


class DataModule(pl.LightningDataModule):
    """Loaders of a data set: training examples, and scored pairs or queries for model selection.

    `setup` reads everything once; call it before weights are loaded, so that a malformed row fails within
    seconds. The data does not know the model: `connect` supplies the tokenisation before
    ``trainer.fit(module, datamodule)``.

    Args:
        data_set: What a function such as `pairs_file` returns.
        batch_size: Examples in a training batch, over all processes; of joint data that of each part.
        seed: Random seed of the order of training examples.
        num_workers: Number of worker processes that tokenise in the background.

    Attributes:
        parts: Data sets by name: those of joint data, else the only one with the name "".
        batch_sizes: Examples in a training batch of each.
        widest: Name of the part whose batches have the most rows.
        train, dev, tests: Training table, dev data and test tasks; filled by `setup`.
        splits: What each part has read; set by `setup`.
        digest_files: Returns digests of the user's files by setting.
        counts: Rows read and dropped, by source; set by `setup`.
        sources: Those of the training examples among them.
        rows: Rows of each part, and how they are drawn; set by `setup`.
        trained_on: Number of training examples next to the published one; set by `setup`.
        epoch_batches: Limit of the batches in an epoch, or None.
        masked: Names of the parts whose loss leaves known positives out, by default all; rows of the others
            are drawn whatever their anchors.
        batches_ahead: Batches that a thread prepares ahead of the consumer, if there are no worker processes.

    Raises:
        ValueError: A number is out of range.
    """

    def __init__(
        self,
        data_set: DataSet,
        batch_size: int | Mapping[str, int] = 64,
        seed: int = 1,
        num_workers: int = 0,
    ) -> None:
        super().__init__()
        self.parts = data_set.parts or {"": data_set}
        if isinstance(batch_size, int):
            batch_size = dict.fromkeys(self.parts, batch_size)
        self.batch_sizes = batch_size
        for size in self.batch_sizes.values():
            check_range("batch_size", size, 1, 2**20)
        check_range("seed", seed, 0, 2**32 - 1)  # the range of NumPy's
        check_range("num_workers", num_workers, 0, 1024)
        self.data_set = data_set
        self.widest = max(self.parts, key=lambda name: len(self.parts[name].views) * self.batch_sizes[name])
        self.seed = seed
        self.num_workers = num_workers
        self.epoch_batches: int | None = None
        self.masked: Collection[str] = self.parts
        self.batches_ahead = 0
        self.digest_files: Callable[[], dict[str, str]] = dict
        self._loaded = False
        self._prepare: tuple[Prepare[Any], Prepare[Any]] | None = None
        self._token_ids: TokenIds | None = None
        self._known: dict[str, KnownPositives | KnownClasses] = {}

    def setup(self, stage: str | None = None) -> None:
        """Read and check all files on the first call; later calls do nothing.

        Args:
            stage: Lightning's stage; all splits are read in each of them.

        Raises:
            DataError: A file is missing or malformed, or fewer than two training examples are left.
        """
        if self._loaded:
            return
        self._files = self.digest_files()  # before they are read: an edit during the run is another content
        splits = self.data_set.read()
        self.train, self.tests = splits.train, splits.tests
        self.dev = splits.dev
        self.splits = splits.parts or {"": splits}
        self.sources = self.train.sources if splits.parts else sources_of(self.train)
        self.counts = [*self.sources, *splits.other_counts]
        self.rows = self._draw()
        self.trained_on = self._count()
        for name, part in self.rows.items():
            if part.drawn >= 2:
                continue
            why = f": {self.trained_on.reasons}" if self.trained_on.reasons else ""
            left = counted(part.drawn, "training example")
            raise DataError(
                f"{left} left{f' in {name}' if name else ''}, but training needs at least two{why}.",
                key="path" if any(source.weight != 1 for source in self.sources) else None,
            )
        for count in self.counts:
            count.report()
        if self.trained_on.differs:
            log.info("on other data than published: %s", self.trained_on)
        self._loaded = True

    def _draw(self) -> dict[str, PartRows]:
        """Return the rows of each part, and how many of them an epoch has."""
        rows = {}
        for name, part in self.splits.items():
            lines, sources = starts_of_lines(part.train), sources_of(part.train)
            whole = len(lines) - 1 if lines else len(part.train)
            shares = [(whole, whole)]
            if any(source.weight != 1 for source in sources):
                shares = [(source.units, source.drawn) for source in sources]
            rows[name] = PartRows(shares, self.batch_sizes[name], lines=lines)
        wanted = self.data_set.shares
        if wanted is None or min(part.drawn for part in rows.values()) < 2:  # `setup` rejects these
            return rows
        batches = min(len(part.starts) / wanted[name] for name, part in rows.items())
        return {name: part.first(max(1, round(batches * wanted[name]))) for name, part in rows.items()}

    def _count(self) -> TrainingCount:
        dropped = Counter[str]()
        for source in self.sources:
            dropped.update(source.dropped)
        names = summary([source.source for source in self.sources], " + ")
        unit, published = self.data_set.unit, self.data_set.published_rows
        return TrainingCount(names, unit, len(self.train), published, dict(dropped))

    def source_score(self, label: float, part: str = "") -> float:
        """Return the score that a training pair of a part has in its source, for messages."""
        low, high = self.splits[part].score_range
        return low + label * (high - low) / SCORE_RANGE[1]

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
        if isinstance(self.dev, Ranking):
            return hash_tables([self.train]) + self.dev.hash
        return hash_tables([self.train, self.dev])

    @property
    def content(self) -> dict[str, Any]:
        """Hashes of the training examples, the dev data, each test task and the user's files."""
        return {
            "train": hash_tables([self.train]),
            "dev": hash_dev(self.dev),
            "tests": hashes_of(self.tests),
            "files": self._files,
        }

    @property
    def text(self) -> TextFound | None:
        """Text of dev and test sentences, if they come from SentEval's files."""
        dev = [] if isinstance(self.dev, Ranking) else [self.dev]
        return text_found([*dev, *tables_of(scored_tasks(self.tests))])

    @property
    def epoch_rows(self) -> int:
        """Number of training examples in an epoch, of which weights of sources may repeat or omit some."""
        return sum(part.drawn for part in self.rows.values())

    def connect(
        self, train: Prepare[Any], evaluation: Prepare[Any], token_ids: TokenIds | None = None
    ) -> None:
        """Set the functions that turn sentences into the encoder's input.

        Args:
            train: Tokenisation of training batches, such as ``encoder.prepare(8192, training=True)``.
            evaluation: Tokenisation of dev batches, such as ``encoder.prepare(8192, training=False)``.
            token_ids: Token ids of texts, such as ``encoder.tokenizer``: answers of which the model cannot
                tell one from the other are no negatives. None compares texts.
        """
        self._prepare, self._token_ids, self._known = (train, evaluation), token_ids, {}

    def _connected(self) -> tuple[Prepare[Any], Prepare[Any]]:
        if self._prepare is None:
            raise RuntimeError("no tokenisation yet; call data.connect(train, evaluation) before training.")
        return self._prepare

    def train_dataloader(self) -> ResumableLoader:
        """Return shuffled training batches."""
        prepare, _ = self._connected()
        shard = Shard.current()
        known = {name: self._known_positives(name) for name in self.parts}
        parts = {
            name: ViewCollator(part.views, part.label, _by_role(prepare, part), shard, known[name])
            for name, part in self.parts.items()
        }
        draws = {name: draw_of(part, self.splits[name].train) for name, part in self.parts.items()}
        drawn = {name: draw for name, draw in draws.items() if draw is not None}
        return ResumableLoader(
            DrawnTable(self.train, drawn, self.seed) if drawn else self.train,
            [replace(rows, anchors=known[name].rows) for name, rows in self.rows.items()],
            JointCollator(parts) if self.data_set.parts else parts[""],
            self.seed,
            self.num_workers,
            self.epoch_batches,
            self.batches_ahead,
        )

    def _known_positives(self, name: str) -> KnownPositives | KnownClasses:
        """Return what a part says of texts that meet in a batch; nothing of scored pairs and single texts."""
        part = self.parts[name]
        if name not in self.masked:
            return KnownPositives()
        if name not in self._known and part.classes:
            self._known[name] = known_classes(self.splits[name].train, self._token_ids)
        columns = list(dict.fromkeys(view.column for view in part.views))
        if name not in self._known and part.label == "none" and 1 < len(columns) == len(part.views):
            known = known_positives(self.splits[name].train, columns, self._token_ids)
            if known.partners:
                log.info(
                    "%s%s with several positives (%s rows): these are no negatives of each other",
                    f"{name}: " if name else "",
                    counted(len(known.partners), "anchor"),
                    f"{len(known.rows):,}",
                )
            self._known[name] = known
        return self._known.setdefault(name, KnownPositives())

    def val_dataloader(self) -> DataLoader[Any]:
        """Return the dev pairs in file order, or the dev queries and then their candidates."""
        _, prepare = self._connected()
        shard = Shard.current()
        data: Any = self.dev  # has what the loader asks for
        size: int | None = DEV_BATCH_SIZE
        collate: Any = ViewCollator(column_views(2), "score", prepare, shard)
        if isinstance(self.dev, Ranking):
            collate, size = partial(_ranked_texts, prepare, shard), None
            data = [
                (role, texts[start : start + DEV_TEXTS])
                for role, texts in self.dev.texts()
                for start in range(0, len(texts), DEV_TEXTS)
            ]
        # A separate generator: the loader would otherwise draw from the one that dropout uses.
        generator = torch.Generator().manual_seed(self.seed)
        return DataLoader(data, batch_size=size, collate_fn=collate, generator=generator)


def _ranked_texts(prepare: Any, shard: Shard, batch: tuple[str, Sequence[str]]) -> Batch[Any]:
    role, texts = batch
    embedded = texts[shard.slice_of(len(texts))] or texts[:1]
    return Batch(prepare([list(embedded)], [None], role=role), 1, None, len(texts), shard)


def _by_role(prepare: Prepare[Any], part: DataSet) -> Prepare[Any]:
    """Return the tokenisation of a part's training batches: prompts by role are for rows alone.

    The texts of a scored pair, and views of one text, are compared in both directions.
    """
    without_roles: Any = partial(prepare, by_role=False)  # type: ignore[call-arg]
    return prepare if part.is_rows else without_roles

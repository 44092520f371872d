"""Pairs of a data set on the Hugging Face hub, or of a folder or file of the same formats."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from datasets import Dataset

from sts_lightning.core.errors import at_setting
from sts_lightning.data.files import RESERVED, scored_table
from sts_lightning.data.module import DEV, TRAINING, sentence_columns
from sts_lightning.data.nli import NLITripletsData
from sts_lightning.data.own_pairs import ScoredOptions, ScoredPairsData
from sts_lightning.data.readers.hub import HubTable
from sts_lightning.data.readers.row_values import BadRows, sentence
from sts_lightning.data.senteval_module import SharedOptions
from sts_lightning.data.tables import SourceCount, check_limit, make_table, sample_rows


class PairsHubData(ScoredPairsData):
    """Scored pairs of a data set on the hub, with a dev split taken from them if none is named.

    Args:
        path: Name of the data set (owner/name), or a folder or file of Parquet, CSV or JSON.
        batch_size: Pairs in a batch.
        seed: Random seed of the order and of the split.
        split: Name of the split with the training pairs.
        dev_split: Name of the split with the dev pairs.
        test_split: Name of the split with the test pairs for the report.
        config: Name of the configuration, where the data set has several.
        revision: Commit, branch or tag; the newest commit if not given.
        limit: Number of training pairs to use, a fixed random sample; all if not given.
        **options: Columns, scores and dev split, see `ScoredOptions`.

    Raises:
        ValueError: An argument is out of range.
    """

    dev_setting, test_setting = "data.dev_split", "data.test_split"

    def __init__(
        self,
        path: str,
        batch_size: int,
        seed: int,
        split: str = "train",
        dev_split: str | None = None,
        test_split: str | None = None,
        config: str | None = None,
        revision: str | None = None,
        limit: int | None = None,
        **options: Unpack[ScoredOptions],
    ) -> None:
        super().__init__(batch_size, seed, dev_split, test_split, limit, **options)
        for name, other in (("dev_split", dev_split), ("test_split", test_split)):
            if other == split:
                raise ValueError(f"{name} must not be the split of the training pairs, {split}.")
        self.path, self.split, self.config, self.revision = path, split, config, revision

    def open(self) -> tuple[dict[str, float], str]:
        """Return the training split."""
        self._table = HubTable(self.path, self.columns, self.config, self.revision)
        return {self.split: 1.0}, self.place(self.split)

    def read(self, source: str, role: str) -> Dataset:
        """Return the pairs of a split."""
        setting = {TRAINING: "data.split", DEV: self.dev_setting}.get(role, self.test_setting)
        bad = BadRows()
        rows = self._table.rows(source, setting, bad, self.columns[2:])
        table, _ = scored_table(rows, self.score_range, bad)
        bad.check()
        self.counts.append(SourceCount(f"{self._table.name}, split {source}, {role}", len(table)))
        return table

    def place(self, source: str) -> str:
        """Return the names of the data set and of a split."""
        return f"{self.path}, split {source}"

    def task_name(self, source: str) -> str:
        """Return the name of the data set without its owner, or with it if it is that of another score."""
        name = Path(self.path).name
        return name if name not in RESERVED else f"{Path(self.path).absolute().parent.name}/{name}"


class TripletsHubData(NLITripletsData):
    """Anchors with a positive and any hard negatives, of a data set on the hub.

    Args:
        root: Data root, from which STS-B dev and the seven test sets are read, too.
        path: Name of the data set (owner/name), or a folder or file of Parquet, CSV or JSON.
        batch_size: Triplets in a batch.
        seed: Random seed of the order.
        columns: Names of the columns of anchor and positive, and of the hard negatives: none, one or several.
        split: Name of the split.
        config: Name of the configuration, where the data set has several.
        revision: Commit, branch or tag; the newest commit if not given.
        limit: Number of examples to use, a fixed random sample; all if not given.
        **options: Dev and test pairs and workers, see `SharedOptions`.

    Raises:
        ValueError: An argument is out of range.
    """

    def __init__(
        self,
        root: str,
        path: str,
        batch_size: int,
        seed: int,
        columns: tuple[str, ...] = ("anchor", "positive", "negative"),
        split: str = "train",
        config: str | None = None,
        revision: str | None = None,
        limit: int | None = None,
        **options: Unpack[SharedOptions],
    ) -> None:
        super().__init__(root, batch_size, seed, path, columns, **options)
        check_limit(limit)
        self.place = (path, config, revision)
        self.split, self.limit = split, limit

    @property
    def published_rows(self) -> None:
        """None: the data set is the user's own."""

    def load_train(self) -> Dataset:
        """Return the triplets of the split, in order."""
        path, config, revision = self.place
        bad, rows = BadRows(), []
        with at_setting("path"):
            table = HubTable(path, self.columns, config, revision)
            for where, _, texts in table.rows(self.split, "data.split", bad):
                with bad:
                    rows.append([sentence(text, where) for text in texts])
            bad.check()
        self.counts.append(SourceCount(f"{table.name}, split {self.split}", len(rows)))
        columns = dict(zip(sentence_columns(self.num_views), zip(*rows, strict=True), strict=True))
        return sample_rows(make_table(columns), self.limit, self.counts)

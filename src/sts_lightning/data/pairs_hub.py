"""Scored pairs of a data set on the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType

from datasets import Dataset

from sts_lightning.data.evaluation_files import RESERVED
from sts_lightning.data.module import DEV, TEST, TRAINING
from sts_lightning.data.readers.hub import HubTable
from sts_lightning.data.readers.row_values import BadRows, text_of
from sts_lightning.data.scored_pairs import DEV_FRACTION, ScoredPairsData
from sts_lightning.errors import DataError


class PairsHubData(ScoredPairsData):
    """Scored pairs of a data set on the hub or of a folder.

    A dev split is taken from the pairs if none is named. Scores are mapped linearly from ``score_range`` to
    [0, 5]. A pair that occurs more than once (in either order) is never split between training and dev.
    Loading scripts are never executed.

    Args:
        path: Name of the data set (owner/name), or a folder of Parquet, CSV or JSON files.
        batch_size: Pairs in a batch.
        seed: Random seed of the order and of the split.
        sentence1: Name of the column of the first sentence.
        sentence2: Name of the column of the second sentence.
        score: Name of the column of the score.
        score_range: Lowest and highest allowed score; recognised from the training scores if not given.
        split: Name of the split with the training pairs.
        dev_split: Name of the split with the dev pairs.
        dev_fraction: Fraction of the pairs that becomes the dev split if ``dev_split`` is not given.
        test_split: Name of the split with the test pairs for the report.
        config: Name of the configuration, where the data set has several.
        revision: Commit, branch or tag; the newest commit if not given.
        streaming: Whether to read rows as they come, without downloading the whole data set; needs ``limit``.
        limit: Number of training pairs to use: a fixed random sample, or the first ones if ``streaming``.
        num_workers: Number of worker processes that tokenise in the background.
        positives_from: Lowest score, on the scale of the data set, of the training pairs to keep as positives
            without a label; see `ScoredPairsData`.

    Raises:
        ValueError: An argument is out of range.
    """

    settings = MappingProxyType({DEV: "data.dev_split", TEST: "data.test_split"})

    def __init__(
        self,
        path: str,
        batch_size: int,
        seed: int,
        sentence1: str = "sentence1",
        sentence2: str = "sentence2",
        score: str = "score",
        score_range: tuple[float, float] | None = None,
        split: str = "train",
        dev_split: str | None = None,
        dev_fraction: float = DEV_FRACTION,
        test_split: str | None = None,
        config: str | None = None,
        revision: str | None = None,
        streaming: bool = False,
        limit: int | None = None,
        num_workers: int = 0,
        positives_from: float | None = None,
    ) -> None:
        columns = (sentence1, sentence2, score)
        super().__init__(
            split,
            dev_split,
            test_split,
            columns,
            score_range,
            dev_fraction,
            limit,
            batch_size,
            seed,
            num_workers,
            positives_from,
        )
        if streaming and limit is None:
            raise ValueError("streaming needs a limit: the number of rows to read.")
        for name, other in (("dev_split", dev_split), ("test_split", test_split)):
            if other == split:
                raise ValueError(f"{name} must not be the split of the training pairs, {split}.")
        self.path = path
        self.config = config
        self.revision = revision
        self.streaming = streaming
        self._source: HubTable | None = None

    @property
    def source(self) -> HubTable:
        """The data set, opened on first use."""
        if self._source is None:
            self._source = HubTable(self.path, self.config, self.revision, self.streaming)
        return self._source

    def read(self, source: str, role: str) -> Dataset:
        """Return the pairs of a split."""
        name = f"{self.source.name}, split {source}"
        bad = BadRows()
        return self.table(self._texts(source, role, bad), bad, role, name, self._at(source))

    def place(self, source: str) -> str:
        """Return the names of the data set and of a split."""
        return f"{self.path}, split {source}"

    def task_name(self, source: str) -> str:
        """Return the name of the data set without its owner, or with it if it is that of another score."""
        name = Path(self.path).name
        return name if name not in RESERVED else f"{Path(self.path).absolute().parent.name}/{name}"

    def _texts(self, split: str, role: str, bad: BadRows) -> Iterator[tuple[int, list[str]]]:
        limit = self.limit if self.streaming and role == TRAINING else None
        for row, values in self.source.rows(
            split, self.columns, limit, self.settings.get(role, "data.split")
        ):
            with bad:
                try:
                    texts = [
                        text_of(value, column, column == self.columns[2])
                        for value, column in zip(values, self.columns, strict=True)
                    ]
                except DataError as error:
                    raise self._at(split)(str(error), row) from None
                yield row, texts

    def _at(self, split: str) -> Callable[[str, int], DataError]:
        return lambda why, row: DataError(why, f"{self.place(split)}, {self.source.files.place(split, row)}")

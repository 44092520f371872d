"""Scored pairs from the user's own CSV, TSV or JSONL file."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from datasets import Dataset

from sts_lightning.data.module import SentenceDataModule
from sts_lightning.data.overlap import pair_key
from sts_lightning.data.pair_tables import SCORE_RANGE, SourceCount, make_table, require_varied_scores
from sts_lightning.data.readers.row_values import score, sentence
from sts_lightning.data.readers.senteval import STSTask
from sts_lightning.data.readers.text_files import read_records
from sts_lightning.errors import DataError


class PairsFileData(SentenceDataModule):
    """Scored pairs of a file, with a dev split taken from them if no dev file is given.

    Scores are mapped linearly from ``score_range`` to [0, 5]. A pair that occurs more than once (in
    either order) is never split between training and dev.

    Args:
        path: Training file; ``.csv`` (quoted), ``.tsv`` (not quoted) or ``.jsonl``.
        batch_size: Pairs in a batch.
        seed: Random seed of the order and of the split.
        sentence1: Name of the column of the first sentence.
        sentence2: Name of the column of the second sentence.
        score: Name of the column of the score.
        score_range: Lowest and highest allowed score.
        dev_path: File with dev pairs.
        dev_fraction: Fraction of the pairs that becomes the dev split if ``dev_path`` is not given.
        test_path: File with test pairs for the report.
        num_workers: Number of worker processes that tokenise in the background.

    Raises:
        ValueError: An argument is out of range.
    """

    def __init__(
        self,
        path: str,
        batch_size: int,
        seed: int,
        sentence1: str = "sentence1",
        sentence2: str = "sentence2",
        score: str = "score",
        score_range: tuple[float, float] = SCORE_RANGE,
        dev_path: str | None = None,
        dev_fraction: float = 0.1,
        test_path: str | None = None,
        num_workers: int = 0,
    ) -> None:
        super().__init__(batch_size, seed, num_workers)
        if len(score_range) != 2 or not -math.inf < score_range[0] < score_range[1] < math.inf:
            raise ValueError(
                f"score_range must be [low, high], finite, with low < high, got {list(score_range)}."
            )
        low, high = score_range
        if not 0 < dev_fraction < 1:
            raise ValueError(f"dev_fraction must lie between 0 and 1, got {dev_fraction}.")
        if len({sentence1, sentence2, score}) < 3:
            raise ValueError(
                f"sentence1, sentence2 and score must name three different columns, got {sentence1!r}, "
                f"{sentence2!r} and {score!r}."
            )
        self.path = Path(path)
        self.columns = [sentence1, sentence2, score]
        self.score_range = (low, high)
        self.dev_path = dev_path
        self.dev_fraction = dev_fraction
        self.test_path = test_path

    def load_train(self) -> Dataset:
        """Return the pairs of the file without the dev split."""
        table = self._read(self.path, "training pairs")
        if self.dev_path is not None:
            return table
        in_dev = self._split(table)
        self._dev = table.select(np.flatnonzero(in_dev))
        require_varied_scores(self._dev, self.path)
        self.counts[-1].dropped["dev split"] = int(in_dev.sum())
        rest = table.select(np.flatnonzero(~in_dev))
        require_varied_scores(rest, self.path)
        return rest

    def load_dev(self) -> Dataset:
        """Return the pairs of ``dev_path``, or the dev split."""
        return self._dev if self.dev_path is None else self._read(Path(self.dev_path), "dev pairs")

    def load_tests(self) -> list[STSTask]:
        """Return the pairs of ``test_path`` as one task, if given."""
        if self.test_path is None:
            return []
        path = Path(self.test_path)
        return [STSTask(path.stem, {"test": self._read(path, "test pairs")})]

    def _read(self, path: Path, role: str) -> Dataset:
        low, high = self.score_range
        rows = []
        for line, (first, second, gold) in read_records(path, self.columns, numbers=self.columns[2:]):
            scaled = 5 * (score(gold, self.score_range, path, line) - low) / (high - low)
            rows.append((sentence(first, path, line), sentence(second, path, line), scaled))
        self.counts.append(SourceCount(f"{path.name} ({role})", len(rows)))
        columns = zip(*rows, strict=True)
        table = make_table(dict(zip(("sentence1", "sentence2", "label"), columns, strict=True)))
        require_varied_scores(table, path)
        return table

    def _split(self, table: Dataset) -> np.ndarray:
        """Return a mask of the dev rows: a random fraction of the distinct pairs, drawn by ``seed``."""
        pairs = zip(table["sentence1"], table["sentence2"], strict=True)
        keys = [pair_key(first, second, "exact") for first, second in pairs]
        distinct = list(dict.fromkeys(keys))
        size = max(2, round(self.dev_fraction * len(distinct)))
        if len(distinct) < size + 2:
            raise DataError(
                f"{len(distinct)} distinct pair(s) are too few to take a dev split of {size} from; "
                "add pairs, or give a dev file with data.dev_path=...",
                self.path,
            )
        drawn = np.random.default_rng(self.seed).permutation(len(distinct))[:size]
        dev = {distinct[index] for index in drawn}
        return np.array([key in dev for key in keys])

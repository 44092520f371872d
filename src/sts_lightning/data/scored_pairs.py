"""The user's own scored pairs, whatever they are read from."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from datasets import Dataset

from sts_lightning.data.module import SentenceDataModule
from sts_lightning.data.overlap import not_in, pair_key
from sts_lightning.data.pair_tables import (
    SCORE_RANGE,
    SourceCount,
    check_limit,
    make_table,
    require_varied_scores,
    sample_rows,
)
from sts_lightning.data.readers.row_values import checked_range, number, score, sentence
from sts_lightning.data.readers.senteval import STSTask
from sts_lightning.errors import DataError

log = logging.getLogger(__name__)

Range = tuple[float, float]

USUAL_RANGES: tuple[Range, ...] = ((0.0, 1.0), SCORE_RANGE)
"""Ranges of scores that are recognised, the narrowest first."""

TRAINING, DEV, TEST = "training pairs", "dev pairs", "test pairs"


class ScoredPairsData(SentenceDataModule):
    """Scored pairs, with a dev split taken from them if none is given.

    Scores are mapped linearly from ``score_range`` to [0, 5]. A pair that occurs more than once (in
    either order) is never split between training and dev. A subclass reads a source, which is the name of a
    file or of a split, in `read`.

    Args:
        train: Source of the training pairs.
        dev: Source of the dev pairs; None to take ``dev_fraction`` of the training pairs.
        test: Source of the test pairs for the report, or None.
        columns: Names of the columns of the first sentence, the second sentence and the score.
        score_range: Lowest and highest allowed score; None for [0, 1] if it contains all training scores,
            or else [0, 5].
        dev_fraction: Fraction of the pairs that becomes the dev split.
        limit: Number of pairs to use, a fixed random sample; all if not given.
        batch_size: Pairs in a batch.
        seed: Random seed of the order and of the split.
        num_workers: Number of worker processes that tokenise in the background.

    Raises:
        ValueError: An argument is out of range.
    """

    def __init__(
        self,
        train: str,
        dev: str | None,
        test: str | None,
        columns: tuple[str, str, str],
        score_range: Range | None,
        dev_fraction: float,
        limit: int | None,
        batch_size: int,
        seed: int,
        num_workers: int,
    ) -> None:
        super().__init__(batch_size, seed, num_workers)
        if not 0 < dev_fraction < 1:
            raise ValueError(f"dev_fraction must lie between 0 and 1, got {dev_fraction}.")
        if len(set(columns)) < 3:
            raise ValueError(
                "sentence1, sentence2 and score must name three different columns, got {!r}, {!r} and "
                "{!r}.".format(*columns)
            )
        check_limit(limit)
        self.sources = (train, dev, test)
        self.columns = list(columns)
        self.score_range = None if score_range is None else checked_range(score_range)
        self.dev_fraction = dev_fraction
        self.limit = limit

    @abstractmethod
    def read(self, source: str, role: str) -> Dataset:
        """Return the pairs of a source; see `table`."""

    @abstractmethod
    def place(self, source: str) -> str:
        """Return the name of a source in messages."""

    def load_train(self) -> Dataset:
        """Return the training pairs without the dev split."""
        source, dev, _ = self.sources
        table, left_out = sample_rows(self.read(source, TRAINING), self.limit)
        if left_out:
            self.counts[-1].dropped["data.limit"] = left_out
        self._kept = table
        if dev is None:
            in_dev = self._split(table)
            self._dev = table.select(np.flatnonzero(in_dev))
            require_varied_scores(self._dev, self.place(source))
            self.counts[-1].dropped["dev split"] = int(in_dev.sum())
            self._kept = table.select(np.flatnonzero(~in_dev))
        require_varied_scores(self._kept, self.place(source))
        return self._kept

    def load_dev(self) -> Dataset:
        """Return the dev pairs, or the dev split."""
        dev = self.sources[1]
        if dev is None:
            return self._dev
        table = self.read(dev, DEV)
        self._report_common(table, dev, DEV)
        return table

    def load_tests(self) -> list[STSTask]:
        """Return the test pairs as one task, if given."""
        test = self.sources[2]
        if test is None:
            return []
        table = self.read(test, TEST)
        self._report_common(table, test, TEST)
        return [STSTask(self.task_name(test), {"test": table})]

    def task_name(self, source: str) -> str:
        """Return the name of the test task."""
        return source

    def table(
        self,
        rows: Iterable[tuple[int, Sequence[str]]],
        source: str,
        role: str,
        name: str,
        at: Callable[[str, int], DataError],
    ) -> Dataset:
        """Check rows, map their scores to [0, 5], and return them as a table.

        Args:
            rows: Number of each row, and the texts of its sentences and its score.
            source: Source of the rows.
            role: Use of the rows.
            name: Name of the source in the counts.
            at: Function that adds the place of a row to a message.

        Raises:
            DataError: A row is malformed, or all scores are equal.
        """
        parsed = []
        for index, (first, second, gold) in rows:
            try:
                value = number(gold) if self.score_range is None else score(gold, self.score_range)
                parsed.append((sentence(first), sentence(second), value))
            except DataError as error:
                raise at(str(error), index) from None
        self.counts.append(SourceCount(f"{name}, {role}", len(parsed)))
        if self.score_range is None:
            self.score_range = self._recognised([value for *_, value in parsed], source)
        low, high = self.score_range
        table = make_table(
            {
                "sentence1": [first for first, _, _ in parsed],
                "sentence2": [second for _, second, _ in parsed],
                "label": [5 * (value - low) / (high - low) for *_, value in parsed],
            }
        )
        require_varied_scores(table, self.place(source))
        return table

    def _recognised(self, scores: Sequence[float], source: str) -> Range:
        low, high = min(scores, default=0.0), max(scores, default=0.0)
        for least, most in USUAL_RANGES:
            if least <= low and high <= most:
                log.info(
                    "%s: scores from %g to %g, taken to be in [%g, %g]; data.score_range=[...] sets another "
                    "range",
                    self.place(source),
                    low,
                    high,
                    least,
                    most,
                )
                return least, most
        raise DataError(
            f"the scores lie between {low:g} and {high:g}, in neither of the ranges [0, 1] and [0, 5].",
            self.place(source),
            key="data.score_range",
            hint=f"Give the lowest and the highest possible score: 'data.score_range=[{low:g},{high:g}]'.",
        )

    def _report_common(self, table: Dataset, source: str, role: str) -> None:
        """Warn of training pairs that also occur in dev or test pairs."""
        keep = not_in([table], "exact")
        pairs = zip(self._kept["sentence1"], self._kept["sentence2"], strict=True)
        common = sum(not keep(*pair) for pair in pairs)
        if common:
            log.warning(
                "WARNING: %s of %s training pairs also occur in the %s (%s), in the same or the other order; "
                "the scores on these are too high.",
                f"{common:,}",
                f"{len(self._kept):,}",
                role,
                self.place(source),
            )

    def _split(self, table: Dataset) -> np.ndarray:
        """Return a mask of the dev rows: a random fraction of the distinct pairs, drawn by ``seed``."""
        pairs = zip(table["sentence1"], table["sentence2"], strict=True)
        keys = [pair_key(first, second, "exact") for first, second in pairs]
        distinct = list(dict.fromkeys(keys))
        size = max(2, round(self.dev_fraction * len(distinct)))
        if len(distinct) < size + 2:
            raise DataError(
                f"{len(distinct)} distinct pair(s) are too few to take a dev split of {size} from; "
                f"add pairs, or give dev pairs with {self.dev_setting}=...",
                self.place(self.sources[0]),
            )
        drawn = np.random.default_rng(self.seed).permutation(len(distinct))[:size]
        dev = {distinct[index] for index in drawn}
        return np.array([key in dev for key in keys])

    dev_setting = "data.dev_path"
    """Setting that names the source of the dev pairs."""

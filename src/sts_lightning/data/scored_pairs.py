"""The user's own scored pairs, whatever they are read from."""

from __future__ import annotations

import logging
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from datasets import Dataset

from sts_lightning.counted import counted
from sts_lightning.data.module import DEV, TEST, TRAINING, SentenceDataModule
from sts_lightning.data.overlap import pair_key, report_common
from sts_lightning.data.pair_tables import (
    SCORE_RANGE,
    SourceCount,
    check_limit,
    make_table,
    pairs_of,
    require_varied_scores,
    sample_rows,
    select_rows,
    values_of,
    warn_of_narrow_scores,
)
from sts_lightning.data.readers.row_values import checked_range, number, score, sentence
from sts_lightning.data.readers.senteval import STSTask
from sts_lightning.errors import DataError, at_setting

log = logging.getLogger(__name__)

Range = tuple[float, float]

DEV_FRACTION = 0.1
"""Usual fraction of the pairs that becomes the dev split."""

USUAL_RANGES: tuple[Range, ...] = ((0.0, 1.0), SCORE_RANGE)
"""Ranges of scores that are recognised, the narrowest first."""


class ScoredPairsData(SentenceDataModule):
    """Scored pairs, with a dev split taken from them if none is given.

    Scores are mapped linearly from ``score_range`` to [0, 5]. A pair that occurs more than once (in
    either order) is never split between training and dev. A subclass reads a source, which is the name of a
    file or of a split, in `read`.

    Args:
        train: Source of the training pairs, or their names together (see `training_sources`).
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
        positives_from: Lowest score, on the scale of the file, of the training pairs to keep as positives
            without a label, for contrastive losses; None to keep all pairs with their scores. Dev and test
            pairs keep all scores, and a dev split is taken from all pairs.

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
        positives_from: float | None = None,
    ) -> None:
        super().__init__(batch_size, seed, num_workers)
        if positives_from is not None and not math.isfinite(positives_from):
            raise ValueError(f"positives_from must be finite, got {positives_from}.")
        self.positives_from = positives_from
        self.label = "score" if positives_from is None else "none"
        if not 0 < dev_fraction < 1:
            raise ValueError(f"dev_fraction must lie between 0 and 1, got {dev_fraction}.")
        if dev is not None and dev_fraction != DEV_FRACTION:
            raise ValueError(f"dev_fraction has no effect with dev pairs, {dev}; leave out one of the two.")
        if len(set(columns)) < 3:
            raise ValueError(
                "sentence1, sentence2 and score must name three different columns, got {!r}, {!r} and "
                "{!r}.".format(*columns)
            )
        check_limit(limit)
        self.places = (train, dev, test)
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

    def training_sources(self) -> Mapping[str, float]:
        """Return the sources of the training pairs with their weights."""
        return {self.places[0]: 1.0}

    def load_train(self) -> Dataset:
        """Return the training pairs without the dev split."""
        with at_setting("data.path"):
            return self._load_train(self.place(self.places[0]))

    def _load_train(self, place: str) -> Dataset:
        table = self.read_sources(self.training_sources(), lambda source: self.read(source, TRAINING))
        if self.positives_from is None:
            require_varied_scores(table, place)
        if self.limit is not None:
            table = sample_rows(table, self.limit, self.counts)
        if self.places[1] is None:
            in_dev = self._split(table)
            self._dev = table.select(np.flatnonzero(in_dev))
            with at_setting("data.dev_fraction"):
                require_varied_scores(self._dev, f"{place}, dev split of {self.dev_fraction:g}")
            table = select_rows(table, ~in_dev, self.counts, "dev split")
        if self.positives_from is not None:
            return self._positives(table, self.positives_from, place)
        require_varied_scores(table, place)
        return table

    def _positives(self, table: Dataset, lowest: float, place: str) -> Dataset:
        """Return the pairs with at least a score, which is on the scale of the file as the user sees it."""
        assert self.score_range is not None  # given, or recognised in `table`
        low, high = self.score_range
        labels = np.asarray(values_of(table, "label"), dtype=np.float64)
        keep = labels >= 5 * (lowest - low) / (high - low)
        if len(labels) > 1 and keep.sum() < 2:
            highest, second = low + (high - low) / 5 * np.sort(labels)[:-3:-1]
            raise DataError(
                f"{int(keep.sum())} of {len(labels):,} training pairs have a score of at least {lowest:g}; "
                f"the highest score is {highest:g}.",
                place,
                key="data.positives_from",
                hint=f"Set a lower data.positives_from, at most {math.floor(1e4 * second) / 1e4:g}.",
            )
        return select_rows(table, keep, self.counts, f"below data.positives_from={lowest:g}")

    def load_dev(self) -> Dataset:
        """Return the dev pairs, or the dev split."""
        dev = self.places[1]
        return self._dev if dev is None else self._read_other(dev, DEV)

    def load_tests(self) -> list[STSTask]:
        """Return the test pairs as one task, if given."""
        test = self.places[2]
        if test is None:
            return []
        return [STSTask(self.task_name(test), {"test": self._read_other(test, TEST)})]

    def _read_other(self, source: str, role: str) -> Dataset:
        """Read dev or test pairs, and warn of training pairs among them."""
        with at_setting(self.settings[role]):
            table = self.read(source, role)
            require_varied_scores(table, self.place(source))
        report_common(self.train, self.sources, [table], f"{role} ({self.place(source)})")
        return table

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
            DataError: A row is malformed.
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
        if parsed:
            warn_of_narrow_scores([value for *_, value in parsed], self.score_range, self.place(source))
        return make_table(
            {
                "sentence1": [first for first, _, _ in parsed],
                "sentence2": [second for _, second, _ in parsed],
                "label": [5 * (value - low) / (high - low) for *_, value in parsed],
            }
        )

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

    def _split(self, table: Dataset) -> np.ndarray:
        """Return a mask of the dev rows: a random fraction of the distinct pairs, drawn by ``seed``."""
        pairs = pairs_of(table)
        keys = [pair_key(first, second, "exact") for first, second in pairs]
        distinct = list(dict.fromkeys(keys))
        size = max(2, round(self.dev_fraction * len(distinct)))
        if len(distinct) < size + 2:
            raise DataError(
                f"{counted(len(distinct), 'distinct pair')} are too few to take a dev split of {size} from; "
                f"add pairs, or give dev pairs with {self.settings[DEV]}=...",
                self.place(self.places[0]),
            )
        drawn = np.random.default_rng(self.seed).permutation(len(distinct))[:size]
        dev = {distinct[index] for index in drawn}
        return np.array([key in dev for key in keys])

    settings: Mapping[str, str] = MappingProxyType({DEV: "data.dev_path", TEST: "data.test_path"})
    """Settings that name the sources of dev and test pairs."""

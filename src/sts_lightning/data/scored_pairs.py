"""The user's own scored pairs, whatever they are read from."""

from __future__ import annotations

import logging
import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from datasets import Dataset

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
)
from sts_lightning.data.readers.row_values import BadRows, checked_range, number, score, sentence
from sts_lightning.data.readers.senteval import STSTask
from sts_lightning.errors import DataError, at_setting
from sts_lightning.text import counted

log = logging.getLogger(__name__)

Range = tuple[float, float]

DEV_FRACTION = 0.1
"""Usual fraction of the pairs that becomes the dev split."""

USUAL_RANGES: tuple[Range, ...] = ((0.0, 1.0), (-1.0, 1.0), SCORE_RANGE)
"""Ranges of scores that are recognised, the narrowest first."""


def usual_range(scores: Sequence[float]) -> Range | None:
    """Return the first of `USUAL_RANGES` that contains all scores, None if none does."""
    low, high = min(scores), max(scores)
    return next((usual for usual in USUAL_RANGES if usual[0] <= low and high <= usual[1]), None)


def recognise_range(scores: Sequence[float], place: str) -> Range:
    """Return the range that training scores are taken to be in, and log it.

    Args:
        scores: The scores of all sources together: those of one may not fill the range.
        place: Name of the sources.

    Raises:
        DataError: It is none of `USUAL_RANGES`.
    """
    low, high = min(scores), max(scores)
    found = usual_range(scores)
    if found is None:
        usual = ", ".join(f"[{least:g}, {most:g}]" for least, most in USUAL_RANGES)
        least, most = _round_range(low, high)
        raise DataError(
            f"the scores lie between {low:g} and {high:g}, in none of the ranges {usual}.",
            place,
            key="data.score_range",
            hint=f"Give the lowest and the highest possible score: 'data.score_range=[{least},{most}]'.",
        )
    log.info(
        "%s: scores from %g to %g, taken to be in [%g, %g]; data.score_range=[lowest,highest] states another "
        "range",
        place,
        low,
        high,
        *found,
    )
    return found


def _round_range(low: float, high: float) -> tuple[int, int]:
    """Return whole numbers that contain all scores, which are in no usual range: 0 and 100 for percent."""
    if low >= 0 and 10 < high <= 100:
        return 0, 100
    least, most = math.floor(low), math.ceil(high)
    return (least, most) if least < most else (min(least, 0), max(most, 0))


class ScoredPairsData(SentenceDataModule):
    """Scored pairs, with a dev split taken from them if none is given.

    Scores are mapped linearly from ``score_range`` to [0, 5]. Without it, the range is recognised from all
    training scores together (`recognise_range`). Dev and test pairs may be on another scale, which changes
    no correlation: each is mapped by the range that it is recognised by, and stays as it is on any other.
    The dev split is stratified by score; a pair that occurs more than once (in either order) is never split
    between training and dev. A subclass reads a source, which is the name of a file or of a split, in `read`.

    Args:
        train: Source of the training pairs, or their names together (see `training_sources`).
        dev: Source of the dev pairs; None to take ``dev_fraction`` of the training pairs.
        test: Source of the test pairs for the report, or None.
        columns: Names of the columns of the first sentence, the second sentence and the score.
        score_range: Lowest and highest allowed score, of dev and test pairs, too; None to recognise it.
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
        """Return the pairs of a source, with the scores that they have there; see `table`."""

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
        scores = values_of(table, "label")
        self._range = self.score_range or recognise_range(scores, place)
        if self.score_range is not None or len(self.counts) > 1:
            self._warn_of_narrow_scores(scores)
        if self.limit is not None:
            table = sample_rows(table, self.limit, self.counts)
        if self.places[1] is None:
            if len(scores) > 1 and min(scores) == max(scores):
                raise DataError(
                    f"all {len(scores):,} scores equal {scores[0]:g}, so no dev split of them can choose "
                    "between checkpoints.",
                    place,
                    hint=f"Give dev pairs with different scores: {self.settings[DEV]}=...",
                )
            in_dev = self._split(table)
            self._dev = _on_scale(table.select(np.flatnonzero(in_dev)), self._range)
            table = select_rows(table, ~in_dev, self.counts, "dev split")
        if self.positives_from is not None:
            table = self._positives(table, self.positives_from, place)
        return _on_scale(table, self._range)

    def own_score(self, label: float) -> float:
        """Return the score that a training pair has in its source."""
        low, high = self._range
        return low + label * (high - low) / SCORE_RANGE[1]

    def _warn_of_narrow_scores(self, scores: Sequence[float]) -> None:
        """Warn of a source whose scores fill a fifth of the range or less: mostly it has another scale."""
        least, most = self._range
        start = 0
        for count in self.counts:
            own = scores[start : start + count.read]
            start += count.read
            if max(own) - min(own) <= (most - least) / 5:
                log.warning(
                    "WARNING: %s: the scores lie between %g and %g, a fifth or less of [%g, %g]. If that is "
                    "not their scale, set data.score_range, or rescale them.",
                    count.source,
                    min(own),
                    max(own),
                    *self._range,
                )

    def _positives(self, table: Dataset, lowest: float, place: str) -> Dataset:
        """Return the pairs with at least a score, before scores are mapped: on the scale of the file."""
        scores = np.asarray(values_of(table, "label"), dtype=np.float64)
        keep = scores >= lowest
        if len(scores) > 1 and keep.sum() < 2:
            highest, second = np.sort(scores)[:-3:-1]
            raise DataError(
                f"{int(keep.sum())} of {len(scores):,} training pairs have a score of at least {lowest:g}; "
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
        found = self.score_range or usual_range(values_of(table, "label"))
        table = table if found is None else _on_scale(table, found)
        report_common(self.train, self.sources, [table], f"{role} ({self.place(source)})")
        return table

    def task_name(self, source: str) -> str:
        """Return the name of the test task."""
        return source

    def table(
        self,
        rows: Iterable[tuple[int, Sequence[str]]],
        bad: BadRows,
        role: str,
        name: str,
        at: Callable[[str, int], DataError],
    ) -> Dataset:
        """Check rows, and return them as a table, whose scores are not mapped yet.

        Args:
            rows: Number of each row, and the texts of its sentences and its score.
            bad: Keeps the errors of rows; those of ``rows`` are among them.
            role: Use of the rows.
            name: Name of the source in the counts.
            at: Function that adds the place of a row to a message.

        Raises:
            DataError: Rows are malformed.
        """
        parsed, golds = [], []
        for index, (first, second, gold) in rows:
            golds.append(gold)
            with bad:
                try:
                    value = number(gold) if self.score_range is None else score(gold, self.score_range)
                    parsed.append((sentence(first), sentence(second), value))
                except DataError as error:
                    raise at(str(error), index) from None
        if bad:
            bad.check(self.class_hint(golds) if role == TRAINING else None)
        self.counts.append(SourceCount(f"{name}, {role}", len(parsed)))
        columns = zip(*parsed, strict=True) if parsed else ((), (), ())
        return make_table(dict(zip(("sentence1", "sentence2", "label"), columns, strict=True)))

    def class_hint(self, golds: Sequence[str]) -> str | None:
        """Return how to train on scores that are words, None if they are not or there is no such way."""
        return None

    def _split(self, table: Dataset) -> np.ndarray:
        """Return a mask of the dev rows: a fraction of the distinct pairs, stratified by score.

        See `stratified`. Of a pair that occurs more than once the first score counts.

        Raises:
            DataError: There are too few pairs, or too few different scores.
        """
        keys = [pair_key(first, second, "exact") for first, second in pairs_of(table)]
        first_rows: dict[Hashable, int] = {}
        for row, key in enumerate(keys):
            first_rows.setdefault(key, row)
        size = max(2, round(self.dev_fraction * len(first_rows)))
        instead = f"Add pairs, or give dev pairs: {self.settings[DEV]}=..."
        if len(first_rows) < size + 2:
            raise DataError(
                f"{counted(len(first_rows), 'distinct pair')} are too few to take a dev split of {size} "
                "from.",
                self.place(self.places[0]),
                hint=instead,
            )
        labels = np.asarray(values_of(table, "label"), dtype=np.float64)
        drawn = stratified(labels[list(first_rows.values())], size, self.seed)
        dev = {key for key, inside in zip(first_rows, drawn, strict=True) if inside}
        in_dev = np.array([key in dev for key in keys])
        if np.ptp(labels[in_dev]) == 0 or np.ptp(labels[~in_dev]) == 0:
            raise DataError(
                f"of {len(first_rows):,} distinct pairs at most one has another score than the rest, so that "
                "the dev split or the training pairs would all have the same.",
                self.place(self.places[0]),
                hint=instead,
            )
        return in_dev

    settings: Mapping[str, str] = MappingProxyType({DEV: "data.dev_path", TEST: "data.test_path"})
    """Settings that name the sources of dev and test pairs."""


def stratified(scores: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Draw a sample whose scores are distributed like all scores.

    The scores are put in order, equal ones at random, and divided into ``size`` runs whose lengths differ by
    at most one; one score of each run is drawn. Where all scores of the sample, or of the rest, would be the
    same though they need not be, one of them changes places with one that differs: of 30 pairs of which two
    are similar, one is drawn.

    Args:
        scores: Scores, (N,).
        size: Number to draw, at most N.
        seed: Random seed.

    Returns:
        A mask, (N,).
    """
    generator = np.random.default_rng(seed)
    shuffled = generator.permutation(len(scores))
    order = shuffled[scores[shuffled].argsort(kind="stable")]
    ends = np.arange(size + 1) * len(scores) // size
    drawn = np.zeros(len(scores), dtype=bool)
    drawn[order[generator.integers(ends[:-1], ends[1:])]] = True
    for side in (True, False):
        inside = np.flatnonzero(drawn == side)
        others = np.flatnonzero(scores != scores[inside[0]])
        if np.ptp(scores[inside]) == 0 and len(others) > 1:
            swapped = [generator.choice(inside), generator.choice(others)]
            drawn[swapped] = ~drawn[swapped]
    return drawn


def _on_scale(table: Dataset, score_range: Range) -> Dataset:
    """Return pairs with their scores mapped from a range to that of STS."""
    low, high = score_range
    top = SCORE_RANGE[1]
    labels = [top * (value - low) / (high - low) for value in values_of(table, "label")]
    columns = {name: values_of(table, name) for name in ("sentence1", "sentence2")}
    return make_table({**columns, "label": labels})

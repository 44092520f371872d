"""The user's own scored pairs: what is common to all of them, and those of files."""

from __future__ import annotations

import logging
import math
import re
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np
from datasets import Dataset

from sts_lightning.core.errors import DataError, at_setting
from sts_lightning.core.text import counted
from sts_lightning.data.files import (
    SCORED_COLUMNS,
    Files,
    Range,
    find_files,
    read_scored_pairs,
    short_names,
    summary,
    task_name,
    weighted,
)
from sts_lightning.data.module import DEV, TEST, TRAINING, SentenceDataModule
from sts_lightning.data.overlap import pair_key, report_common
from sts_lightning.data.readers.row_values import BadRows, checked_range
from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.data.tables import (
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

log = logging.getLogger(__name__)

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


MOST_CLASSES = 10
"""Different words up to which a column in place of scores is taken for classes."""

BARE = re.compile(r"(?!(true|false|null|nan|inf|infinity)$)[A-Za-z_][\w-]*", re.IGNORECASE | re.ASCII)
"""A word that is no number, which Hydra reads as a text without quotes in a list."""


class ScoredOptions(TypedDict, total=False):
    """What all data sets of scored pairs have in common.

    Attributes:
        columns: Names of the columns of the first sentence, the second sentence and the score.
        score_range: Lowest and highest allowed score; recognised from the training scores if not given.
        dev_fraction: Fraction of the pairs that becomes the dev split, if no dev pairs are given.
        num_workers: Number of worker processes that tokenise in the background.
        positives_from: Lowest score, on the scale of the source, of the training pairs to keep as positives
            without a label, for contrastive losses; None to keep all pairs with their scores. Dev and test
            pairs keep all scores, and a dev split is taken from all pairs.
    """

    columns: tuple[str, str, str]
    score_range: Range | None
    dev_fraction: float
    num_workers: int
    positives_from: float | None


class ScoredPairsData(SentenceDataModule):
    """Scored pairs, with a dev split taken from them if none is given.

    Scores are mapped linearly from ``score_range`` to [0, 5]. Without it, the range is recognised from all
    training scores together (`recognise_range`). Dev and test pairs may be on another scale, which changes
    no correlation: each is mapped by the range that it is recognised by, and stays as it is on any other.
    The dev split is stratified by score; a pair that occurs more than once (in either order) is never split
    between training and dev. A subclass reads a source, which is the name of a file or of a split, in `read`.

    Args:
        batch_size: Pairs in a batch.
        seed: Random seed of the order and of the split.
        dev: Source of the dev pairs; None to take ``dev_fraction`` of the training pairs.
        test: Source of the test pairs for the report, or None.
        limit: Number of pairs to use, a fixed random sample; all if not given.
        **options: See `ScoredOptions`.

    Raises:
        ValueError: An argument is out of range.
    """

    dev_setting, test_setting = "data.dev_path", "data.test_path"

    def __init__(
        self,
        batch_size: int,
        seed: int,
        dev: str | None,
        test: str | None,
        limit: int | None = None,
        **options: Unpack[ScoredOptions],
    ) -> None:
        super().__init__(batch_size, seed, options.get("num_workers", 0))
        self.positives_from = options.get("positives_from")
        if self.positives_from is not None and not math.isfinite(self.positives_from):
            raise ValueError(f"positives_from must be finite, got {self.positives_from}.")
        self.label = "score" if self.positives_from is None else "none"
        self.dev_fraction = options.get("dev_fraction", DEV_FRACTION)
        if not 0 < self.dev_fraction < 1:
            raise ValueError(f"dev_fraction must lie between 0 and 1, got {self.dev_fraction}.")
        if dev is not None and self.dev_fraction != DEV_FRACTION:
            raise ValueError(f"dev_fraction has no effect with dev pairs, {dev}; leave out one of the two.")
        self.columns = list(options.get("columns", SCORED_COLUMNS))
        if len(self.columns) != 3 or len(set(self.columns)) != 3:
            raise ValueError(
                "columns must be three different names, of both sentences and the score, got "
                f"{', '.join(self.columns) or 'none'}."
            )
        check_limit(limit)
        score_range = options.get("score_range")
        self.score_range = None if score_range is None else checked_range(score_range)
        self.dev_source, self.test_source, self.limit = dev, test, limit

    @abstractmethod
    def read(self, source: str, role: str) -> Dataset:
        """Return the pairs of a source, with the scores that they have there, and count them."""

    @abstractmethod
    def open(self) -> tuple[dict[str, float], str]:
        """Return the training sources with their weights, and the name of these for messages."""

    def place(self, source: str) -> str:
        """Return the name of a source in messages."""
        return source

    @at_setting("path")
    def load_train(self) -> Dataset:
        """Return the training pairs without the dev split."""
        sources, place = self.open()
        table = self.read_sources(sources, lambda source: self.read(source, TRAINING))
        scores = values_of(table, "label")
        self._range = self.score_range or recognise_range(scores, place)
        if self.score_range is not None or len(self.counts) > 1:
            self._warn_of_narrow_scores(scores)
        if self.limit is not None:
            table = sample_rows(table, self.limit, self.counts)
        if self.dev_source is None:
            in_dev = self._split(table, place)
            self._dev = _on_scale(table.select(np.flatnonzero(in_dev)), self._range)
            table = select_rows(table, ~in_dev, self.counts, "dev split")
        if self.positives_from is not None:  # on the scale of the file
            keep = np.asarray(values_of(table, "label"), dtype=np.float64) >= self.positives_from
            why = f"below data.positives_from={self.positives_from:g}"
            table = select_rows(table, keep, self.counts, why)
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

    def load_dev(self) -> Dataset:
        """Return the dev pairs, or the dev split."""
        if self.dev_source is None:
            return self._dev
        return self._read_other(self.dev_source, DEV, self.dev_setting)

    def load_tests(self) -> list[STSTask]:
        """Return the test pairs as one task, if given."""
        if self.test_source is None:
            return []
        table = self._read_other(self.test_source, TEST, self.test_setting)
        return [STSTask(self.task_name(self.test_source), {"test": table})]

    def task_name(self, source: str) -> str:
        """Return the name of a file without its suffix, with its folder if it is that of another score."""
        return task_name(Path(source))

    def _read_other(self, source: str, role: str, setting: str) -> Dataset:
        """Read dev or test pairs, and warn of training pairs among them."""
        with at_setting(setting):
            table = self.read(source, role)
            require_varied_scores(table, self.place(source))
        found = self.score_range or usual_range(values_of(table, "label"))
        table = table if found is None else _on_scale(table, found)
        report_common(self.train, self.sources, [table], f"{role} ({self.place(source)})")
        return table

    def _split(self, table: Dataset, place: str) -> np.ndarray:
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
        instead = f"Add pairs, or give dev pairs: {self.dev_setting}=..."
        if len(first_rows) < size + 2:
            raise DataError(
                f"{counted(len(first_rows), 'distinct pair')} are too few to take a dev split of {size} "
                "from.",
                place,
                hint=instead,
            )
        labels = np.asarray(values_of(table, "label"), dtype=np.float64)
        drawn = stratified(labels[list(first_rows.values())], size, self.seed)
        dev = {key for key, inside in zip(first_rows, drawn, strict=True) if inside}
        in_dev = np.array([key in dev for key in keys])
        if np.ptp(labels[in_dev]) == 0 or np.ptp(labels[~in_dev]) == 0:
            raise DataError(
                f"of {len(first_rows):,} distinct pairs at most one has another score than the rest, so that "
                "all of the dev split or of the training pairs would have the same.",
                place,
                hint=instead,
            )
        return in_dev


class PairsFileData(ScoredPairsData):
    """Scored pairs of files, with a dev split taken from them if no dev file is given.

    Args:
        path: Training file; ``.csv`` (quoted), ``.tsv`` (not quoted) or ``.jsonl``. Or several files, or
            files with their weights, see `Files`.
        batch_size: Pairs in a batch.
        seed: Random seed of the order and of the split.
        dev_path: File with dev pairs.
        test_path: File with test pairs for the report.
        **options: Columns, scores and dev split, see `ScoredOptions`.

    Raises:
        ValueError: An argument is out of range.
    """

    def __init__(
        self,
        path: Files,
        batch_size: int,
        seed: int,
        dev_path: str | None = None,
        test_path: str | None = None,
        **options: Unpack[ScoredOptions],
    ) -> None:
        self.files = weighted(path)
        super().__init__(batch_size, seed, dev_path, test_path, **options)

    def open(self) -> tuple[dict[str, float], str]:
        """Return the training files."""
        found = find_files(self.files)
        self._names = short_names(found)
        return found, summary(list(self.files))

    def read(self, source: str, role: str) -> Dataset:
        """Return the pairs of a file."""
        bad = BadRows()
        table, golds = read_scored_pairs(Path(source), self.columns, self.score_range, "data.columns", bad)
        bad.check(self._class_hint(golds) if bad and role == TRAINING else None)
        name = self._names[source] if role == TRAINING else Path(source).name
        self.counts.append(SourceCount(f"{name}, {role}", len(table)))
        return table

    def _class_hint(self, golds: Sequence[str]) -> str | None:
        """Return the settings of ``data=classes_file`` that train on words in place of scores, or None."""
        words = list(dict.fromkeys(gold.strip().lower() for gold in golds))
        if not 2 <= len(words) <= MOST_CLASSES or not all(map(BARE.fullmatch, [*words, *self.columns])):
            return None
        columns, classes = (",".join(items) for items in (self.columns, words))
        return (
            f"For words in place of scores: loss=cosent data=classes_file 'data.columns=[{columns}]' "
            f"'data.classes=[{classes}]' data.dev_path={self.dev_source or 'FILE'}, with the classes from the"
            " least to the most similar, and scored pairs in that file."
        )


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

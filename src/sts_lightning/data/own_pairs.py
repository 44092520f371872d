"""The user's own scored pairs: those of files, and what those of the hub have in common with them."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from sts_lightning.core.choices import LabelKind
from sts_lightning.core.errors import DataError, at_setting, counted, line_or_row
from sts_lightning.data.data_set import DEV, TEST, TRAINING, DataSet, Splits
from sts_lightning.data.files import (
    SCORED_COLUMNS,
    Files,
    check_columns,
    find_files,
    read_files,
    read_scored_pairs,
    task_name,
    weighted,
)
from sts_lightning.data.overlap import pair_key, report_common
from sts_lightning.data.readers.row_values import SHOWN_LINES, BadRows, Range, check_score_range
from sts_lightning.data.readers.sts_sets import STSTask, load_sts_tasks, tables_of
from sts_lightning.data.readers.text_files import read_records
from sts_lightning.data.table import (
    SCORE_RANGE,
    SourceCount,
    Table,
    check_limit,
    gold_of,
    require_varied_scores,
    summary,
)

log = logging.getLogger(__name__)

DEV_FRACTION = 0.1
"""Usual fraction of the pairs that becomes the dev split."""

USUAL_RANGES: tuple[Range, ...] = ((0.0, 1.0), (-1.0, 1.0), SCORE_RANGE)
"""Ranges of scores that are recognised, the narrowest first."""

FEW = 0.01
"""Share of the scores that are too few to decide the range of all: one label of -0.01 may be a slip."""

CLASSES_HINT = (
    "For words in place of scores: loss=cosent data=classes_file 'data.classes=[...]', least similar first."
)


def pairs_file(
    path: Files,
    seed: int = 1,
    dev_path: str | None = None,
    test_path: str | None = None,
    columns: tuple[str, str, str] = SCORED_COLUMNS,
    score_range: Range | None = None,
    dev_fraction: float = DEV_FRACTION,
    positives_from: float | None = None,
    root: str = "data",
    keep_general: bool = False,
) -> DataSet:
    """Scored pairs of files, with a dev split taken from them if no dev file is given (`ScoredPairs`).

    Args:
        path: Training file; ``.csv`` (quoted), ``.tsv`` (not quoted), ``.jsonl`` or ``.parquet``, each of
            which may be compressed (``.gz``). Or several files, or files with their weights, see `Files`.
        seed: Random seed of the split.
        dev_path: File with dev pairs.
        test_path: File with test pairs for the report.
        columns: Names of the columns of the first sentence, the second sentence and the score.
        score_range: Lowest and highest allowed score; recognised from the training scores if not given.
        dev_fraction: Fraction of the pairs that becomes the dev split, if no dev file is given.
        positives_from: Lowest score, on the scale of the file, of the training pairs to keep as positives
            without a label.
        root: Data root, from which the seven test sets are read.
        keep_general: Whether the seven STS tasks are reported, before training and after it.

    Raises:
        ValueError: An argument is out of range.
    """
    files = weighted(path)
    scored = ScoredPairs(
        columns, score_range, positives_from, dev_path, test_path, "path", dev_fraction, seed
    )
    general = root if keep_general else None

    def read_file(file: Path, name: str, role: str) -> Table:
        bad = BadRows()
        table = read_scored_pairs(file, columns, score_range, "data.columns", bad)
        bad.check(CLASSES_HINT if role == TRAINING and len(table) == 0 else None)
        return table.read_from(f"{name}, {role}")

    def other(name: str, role: str) -> Pairs:
        file = Path(name)
        return Pairs(read_file(file, file.name, role), name, task_name(file))

    def read() -> Splits:
        with at_setting("path"):
            found = find_files(files)
            table = read_files(found, partial(read_file, role=TRAINING))

            def place(row: int) -> str:
                source = table.source[row]
                file, row = list(found)[source], row - int(np.argmax(table.source == source))
                # Read once more, for errors alone: texts with line breaks shift the lines.
                records = read_records(Path(file), list(columns), columns[2:], bad=BadRows())
                return f"{file}, {line_or_row(file)} {next(islice(records, row, None))[0]}"

            return scored.splits(table, summary(list(files)), other, place, general)

    return DataSet(read, label=scored.label, keep_general=keep_general)


@dataclass(frozen=True)
class Pairs:
    """Scored pairs of a source.

    Attributes:
        table: Pairs with the scores that they have, and the count of them.
        source: Name of their source in messages.
        task: Name of their test task.
    """

    table: Table
    source: str
    task: str


@dataclass(frozen=True)
class ScoredPairs:
    """What data sets of the user's scored pairs have in common: how training pairs become splits.

    Scores are mapped linearly from ``score_range`` to [0, 5]. Without it, the range is recognised from all
    training scores together (`recognise_range`). Dev and test pairs may be on another scale, which changes
    no correlation: each is mapped by the range that it is recognised by, and stays as it is on any other.
    The dev split is stratified by score; a pair that occurs more than once (in either order, and in any
    case and punctuation) is never split between training and dev.

    Attributes:
        columns: Names of the columns of the first sentence, the second sentence and the score.
        score_range: Lowest and highest allowed score; recognised from the training scores if not given.
        positives_from: Lowest score, on the scale of the source, of the training pairs to keep as positives
            without a label, for contrastive losses; None to keep all pairs with their scores. Dev and test
            pairs keep all scores, and a dev split is taken from all pairs.
        dev: Source of the dev pairs; None to take a split of the training pairs.
        test: Source of the test pairs, if any.
        named_by: Ending of the settings that name these sources: ``path`` of data.dev_path.
        dev_fraction: Fraction of the pairs that becomes the dev split.
        seed: Random seed of the split.
        limit: Number of pairs to use, a fixed random sample; all if not given.

    Raises:
        ValueError: A value is out of range.
    """

    columns: Sequence[str]
    score_range: Range | None
    positives_from: float | None
    dev: str | None
    test: str | None
    named_by: Literal["path", "split"]
    dev_fraction: float
    seed: int
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.positives_from is not None and not math.isfinite(self.positives_from):
            raise ValueError(f"positives_from must be finite, got {self.positives_from}.")
        if not 0 < self.dev_fraction < 1:
            raise ValueError(f"dev_fraction must lie between 0 and 1, got {self.dev_fraction}.")
        check_columns(self.columns, 3)
        check_limit(self.limit)
        check_score_range(self.score_range)

    @property
    def label(self) -> LabelKind:
        """Kind of label of a training pair."""
        return "score" if self.positives_from is None else "none"

    def splits(
        self,
        table: Table,
        source: str,
        read_other: Callable[[str, str], Pairs],
        place: Callable[[int], str],
        general: str | None = None,
    ) -> Splits:
        """Return training pairs on the scale of STS, with dev and test pairs.

        Args:
            table: Training pairs with the scores that they have in their sources.
            source: Name of the sources, for messages.
            read_other: Reader of a source of dev or test pairs, given with this role.
            place: Function from a row of the table to its place in its source, for errors.
            general: Data root whose seven test sets are test tasks too; None for none.

        Raises:
            DataError: The range of the scores is not recognised, there are too few pairs for a dev split, or
                dev or test pairs are malformed.
        """
        scores = table["label"]
        score_range = self.score_range or recognise_range(scores, source, place)
        if self.score_range is not None or len(table.sources) > 1:
            _warn_of_narrow_scores(table, score_range)
        table = _with_several_scores(table)
        if self.limit is not None:
            table = table.sample(self.limit)
        if self.dev is None:
            in_dev = self._dev_rows(table, source)
            dev_table = _on_scale(table[in_dev], score_range)
            table = table.drop(in_dev, "dev split")
        if self.positives_from is not None:  # on the scale of the source
            below = gold_of([table]) < self.positives_from
            table = table.drop(below, f"below data.positives_from={self.positives_from:g}")
        table = _on_scale(table, score_range)

        others: list[SourceCount] = []

        def read(source: str, role: str) -> STSTask:
            with at_setting(f"data.{'dev' if role == DEV else 'test'}_{self.named_by}"):
                pairs = read_other(source, role)
                require_varied_scores(pairs.table, pairs.source)
            scale = self.score_range or usual_range(pairs.table["label"])
            scaled = pairs.table if scale is None else _on_scale(pairs.table, scale)
            report_common(table, [scaled], f"{role} ({pairs.source})")
            others.extend(pairs.table.sources)
            return STSTask(pairs.task, {"test": scaled})

        if self.dev is not None:
            dev_table = read(self.dev, DEV).subsets["test"]
        tests = [] if self.test is None else [read(self.test, TEST)]
        if general is not None:
            seven = load_sts_tasks(general)
            report_common(table, tables_of(seven), f"{TEST} (the seven test sets)")
            tests += seven
        return Splits(table, dev_table, tests, others, score_range)

    def _dev_rows(self, table: Table, source: str) -> np.ndarray:
        """Return a mask of the dev rows: a fraction of the distinct pairs, stratified by score.

        See `stratified`. Of a pair that occurs more than once the first score counts. Spellings of a pair
        that differ in case, punctuation or the form of Unicode are one pair: to many models they are the same
        text, and a model that has learnt one by heart knows the other.

        Raises:
            DataError: There are too few pairs, or too few different scores.
        """
        keys = [pair_key(first, second, "normalized") for first, second in table.pairs]
        first_rows: dict[Hashable, int] = {}
        for row, key in enumerate(keys):
            first_rows.setdefault(key, row)
        size = max(2, round(self.dev_fraction * len(first_rows)))
        instead = f"Add pairs, or give dev pairs: data.dev_{self.named_by}=..."
        if len(first_rows) < size + 2:
            raise DataError(
                f"{counted(len(first_rows), 'distinct pair')} are too few to take a dev split of {size} "
                "from.",
                source,
                hint=instead,
            )
        labels = np.asarray(table["label"], dtype=np.float64)
        drawn = stratified(labels[list(first_rows.values())], size, self.seed)
        dev = {key for key, inside in zip(first_rows, drawn, strict=True) if inside}
        in_dev = np.array([key in dev for key in keys])
        if np.ptp(labels[in_dev]) == 0 or np.ptp(labels[~in_dev]) == 0:
            raise DataError(
                f"of {len(first_rows):,} distinct pairs at most one has another score than the rest, so that "
                "all of the dev split or of the training pairs would have the same.",
                source,
                hint=instead,
            )
        return in_dev


def usual_range(scores: Sequence[float]) -> Range | None:
    """Return the first of `USUAL_RANGES` that contains all scores, None if none does."""
    low, high = min(scores), max(scores)
    return next((usual for usual in USUAL_RANGES if usual[0] <= low and high <= usual[1]), None)


def recognise_range(scores: Sequence[float], source: str, place: Callable[[int], str]) -> Range:
    """Return the range that training scores are taken to be in, and log it.

    Args:
        scores: The scores of all sources together: those of one may not fill the range.
        source: Name of the sources.
        place: Function from the position of a score to its place in its source.

    Raises:
        DataError: It is none of `USUAL_RANGES`, or at most `FEW` of the scores decide it.
    """
    low, high = min(scores), max(scores)
    recognised = usual_range(scores)
    for narrow in USUAL_RANGES:
        outside = [row for row, score in enumerate(scores) if not narrow[0] <= score <= narrow[1]]
        if not outside:
            break
        if len(outside) <= FEW * len(scores):
            shown = "; ".join(f"{scores[row]:g} ({place(row)})" for row in outside[:SHOWN_LINES])
            least, most = recognised or (min(low, narrow[0]), max(high, narrow[1]))
            raise DataError(
                f"all scores but {len(outside):,} of {len(scores):,} lie in [{narrow[0]:g}, {narrow[1]:g}]: "
                f"{shown}{'; ...' if len(outside) > SHOWN_LINES else '.'}",
                source,
                key="data.score_range",
                hint="Correct them, or give the range of all scores: "
                f"'data.score_range=[{least:.12g},{most:.12g}]'.",
            )
    if recognised is None:
        usual = ", ".join(f"[{least:g}, {most:g}]" for least, most in USUAL_RANGES)
        least, most = _round_range(low, high)
        raise DataError(
            f"the scores lie between {low:g} and {high:g}, in none of the ranges {usual}.",
            source,
            key="data.score_range",
            hint=f"Give the lowest and the highest possible score: 'data.score_range=[{least},{most}]'.",
        )
    log.info(
        "%s: scores from %g to %g, taken to be in [%g, %g]; data.score_range=[lowest,highest] states another "
        "range",
        source,
        low,
        high,
        *recognised,
    )
    return recognised


def _round_range(low: float, high: float) -> tuple[int, int]:
    """Return whole numbers that contain all scores, which are in no usual range: 0 and 100 for percent."""
    if low >= 0 and 10 < high <= 100:
        return 0, 100
    least, most = math.floor(low), math.ceil(high)
    return (least, most) if least < most else (min(least, 0), max(most, 0))


def _warn_of_narrow_scores(table: Table, score_range: Range) -> None:
    """Warn of a source whose scores fill a fifth of the range or less: mostly it has another scale."""
    scores, (least, most) = gold_of([table]), score_range
    for number, source in enumerate(table.sources):
        of_source = scores[table.source == number]
        if np.ptp(of_source) <= (most - least) / 5:
            log.warning(
                "WARNING: %s: the scores lie between %g and %g, a fifth or less of [%g, %g]. If that is "
                "not their scale, set data.score_range, or rescale them.",
                source.source,
                of_source.min(),
                of_source.max(),
                *score_range,
            )


def _with_several_scores(table: Table) -> Table:
    """Return the table with the number of pairs that each source has with more than one score."""
    seen: dict[Hashable, float] = {}
    several: set[tuple[int, Hashable]] = set()
    for source, pair, score in zip(table.source.tolist(), table.pairs, table["label"], strict=True):
        key = (source, pair_key(*pair, "exact"))
        if seen.setdefault(key, score) != score:
            several.add(key)
    counts = Counter(source for source, _ in several)
    sources = [replace(source, several_scores=counts[number]) for number, source in enumerate(table.sources)]
    return replace(table, sources=sources)


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


def _on_scale(table: Table, score_range: Range) -> Table:
    """Return pairs with their scores mapped from a range to that of STS."""
    low, high = score_range
    top = SCORE_RANGE[1]
    labels = [top * (score - low) / (high - low) for score in table["label"]]
    return replace(table, columns={**table.columns, "label": labels})

"""The user's own scored pairs, of files or of the hub: their range of scores, and how they become splits."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sts_lightning.core.errors import DataError, at_setting, counted, line_or_row
from sts_lightning.data.data_set import DEV, TEST, TRAINING, DataSet, Splits
from sts_lightning.data.judged_files import SCORED_COLUMNS, read_scored_pairs, task_name
from sts_lightning.data.overlap import pair_key, report_common
from sts_lightning.data.readers.row_values import SHOWN_LINES, Range, check_score_range
from sts_lightning.data.readers.sts_sets import STSTask, load_sts_tasks, tables_of
from sts_lightning.data.readers.tables import Input, Source
from sts_lightning.data.sources import (
    Files,
    check_columns,
    open_hub,
    own_files,
    read_sources,
    weighted,
)
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


def scored_pairs(
    path: Files,
    seed: int = 1,
    dev_path: str | None = None,
    test_path: str | None = None,
    columns: tuple[str, str, str] = SCORED_COLUMNS,
    score_range: Range | None = None,
    dev_fraction: float = DEV_FRACTION,
    positives_from: float | None = None,
    limit: int | None = None,
    root: str = "data",
    keep_general: bool = False,
    split: str | None = None,
    dev_split: str | None = None,
    test_split: str | None = None,
    config: str | None = None,
    revision: str | None = None,
) -> DataSet:
    """Scored pairs, with a dev split taken from them if no dev pairs are named.

    Scores are mapped linearly from ``score_range`` to [0, 5]. Without it, the range is recognised from all
    training scores together (`recognise_range`). Dev and test pairs may be on another scale, which changes
    no correlation: each is mapped by the range that it is recognised by, and stays as it is on any other.
    The dev split is stratified by score; a pair that occurs more than once (in either order, and in any
    case and punctuation) is never split between training and dev.

    Args:
        path: Training file; ``.csv`` (quoted), ``.tsv`` (not quoted), ``.jsonl`` or ``.parquet``, each of
            which may be compressed (``.gz``). Or several files, or files with their weights, see `Files`.
            With ``split`` the name of a data set on the hub (owner/name), or a folder or file of Parquet, CSV
            or JSON.
        seed: Random seed of the dev split.
        dev_path: File with dev pairs.
        test_path: File with test pairs for the report.
        columns: Names of the columns of the first sentence, the second sentence and the score.
        score_range: Lowest and highest allowed score; recognised from the training scores if not given.
        dev_fraction: Fraction of the pairs that becomes the dev split, if no dev pairs are named.
        positives_from: Lowest score, on the scale of the source, of the training pairs to keep as positives
            without a label, for contrastive losses. Dev and test pairs keep all scores, and a dev split is
            taken from all pairs.
        limit: Number of training pairs to use, a fixed random sample; all if not given.
        root: Data root, from which the seven test sets are read.
        keep_general: Whether the seven STS tasks are reported, before training and after it.
        split: Split of a data set on the hub with the training pairs.
        dev_split: Split of it with the dev pairs.
        test_split: Split of it with the test pairs for the report.
        config: Configuration of it, where it has several.
        revision: Commit, branch or tag of it; the newest commit if not given.

    Raises:
        ValueError: An argument is out of range.
    """
    if positives_from is not None and not math.isfinite(positives_from):
        raise ValueError(f"positives_from must be finite, got {positives_from}.")
    if not 0 < dev_fraction < 1:
        raise ValueError(f"dev_fraction must lie between 0 and 1, got {dev_fraction}.")
    if split is not None and split in (dev_split, test_split):
        raise ValueError(f"split must not be that of the dev or test pairs, {split}.")
    check_columns(columns, 3)
    check_limit(limit)
    check_score_range(score_range)
    weighted(path)

    def read() -> Splits:
        hub = None if split is None else open_hub(path, columns, config, revision)
        training = own_files(path) if hub is None or split is None else [hub.split(split, "data.split")]
        lines: list[int] = []

        def read_source(source: Source, name: str, role: str = TRAINING) -> Table:
            hint = CLASSES_HINT if role == TRAINING else None
            pairs, numbers = read_scored_pairs(source, columns, score_range, "data.columns", hint)
            lines.extend(numbers)
            return pairs.read_from(f"{name}, {role}")

        def place(row: int) -> str:
            source = str(training[table.source[row]].source)
            return f"{source}, {line_or_row(source)} {lines[row]}"

        table = read_sources(training, read_source)
        source = summary([str(each.source) for each in training])
        scale = score_range or recognise_range(table["label"], source, place)
        if score_range is not None or len(training) > 1:
            _warn_of_narrow_scores(table, scale)
        table = _with_several_scores(table)
        if limit is not None:
            table = table.sample(limit)
        if dev_path is None and dev_split is None:
            in_dev = _dev_rows(table, source, dev_fraction, seed, "path" if hub is None else "split")
            dev = _on_scale(table[in_dev], scale)
            table = table.drop(in_dev, "dev split")
        if positives_from is not None:  # on the scale of the source
            below = gold_of([table]) < positives_from
            table = table.drop(below, f"below data.positives_from={positives_from:g}")
        table = _on_scale(table, scale)
        others: list[SourceCount] = []

        def read_other(role: str, file: str | None, of_hub: str | None) -> Iterator[STSTask]:
            setting = f"data.{role.split()[0]}_{'split' if file is None else 'path'}"
            with at_setting(setting):
                if file is not None:
                    found, task = Input(Path(file), Path(file).name), task_name(Path(file))
                elif hub is not None and of_hub is not None:
                    found, task = (
                        hub.split(of_hub, setting),
                        task_name(Path(hub.path), name=Path(hub.path).name),
                    )
                else:
                    return
                pairs = read_source(found.source, found.name, role)
                require_varied_scores(pairs, str(found.source))
            own_scale = score_range or usual_range(pairs["label"])
            pairs = pairs if own_scale is None else _on_scale(pairs, own_scale)
            report_common(table, [pairs], f"{role} ({found.source})")
            others.extend(pairs.sources)
            yield STSTask(task, {"test": pairs})

        for task in read_other(DEV, dev_path, dev_split):
            [dev] = task.subsets.values()
        tests = list(read_other(TEST, test_path, test_split))
        if keep_general:
            seven = load_sts_tasks(root)
            report_common(table, tables_of(seven), f"{TEST} (the seven test sets)")
            tests += seven
        return Splits(table, dev, tests, others, scale)

    return DataSet(read, label="score" if positives_from is None else "none", keep_general=keep_general)


def _dev_rows(table: Table, source: str, fraction: float, seed: int, named_by: str) -> np.ndarray:
    """Return a mask of the dev rows: a fraction of the distinct pairs, stratified by score.

    See `stratified`. Of a pair that occurs more than once the first score counts. Spellings of a pair that
    differ in case, punctuation or the form of Unicode are one pair: to many models they are the same text,
    and a model that has learnt one by heart knows the other.

    Args:
        table: Training pairs.
        source: Name of the sources, for errors.
        fraction: Fraction of the pairs.
        seed: Random seed.
        named_by: End of the setting by which dev pairs can be named.

    Raises:
        DataError: There are too few pairs, or too few different scores.
    """
    keys = [pair_key(first, second, "normalized") for first, second in table.pairs]
    first_rows: dict[Hashable, int] = {}
    for row, key in enumerate(keys):
        first_rows.setdefault(key, row)
    size = max(2, round(fraction * len(first_rows)))
    instead = f"Add pairs, or give dev pairs: data.dev_{named_by}=..."
    if len(first_rows) < size + 2:
        pairs = counted(len(first_rows), "distinct pair")
        raise DataError(f"{pairs} are too few to take a dev split of {size} from.", source, hint=instead)
    labels = gold_of([table])
    drawn = stratified(labels[list(first_rows.values())], size, seed)
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

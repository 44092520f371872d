"""NLI pairs with a class, and triplets of an anchor, a positive and hard negatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import numpy as np

from sts_lightning.data.counts import DEFINITE_NLI_PAIRS, NLI_PAIRS, TRIPLETS
from sts_lightning.data.data_set import DataSet, Splits, column_views
from sts_lightning.data.dev_and_tests import DevAndTests, DevTestOptions, RowOptions
from sts_lightning.data.files import Files, check_columns, only_file, read_files, training_files, weighted
from sts_lightning.data.overlap import OverlapFilter
from sts_lightning.data.readers.nli import CLASSES, COLUMNS, read_nli_pairs
from sts_lightning.data.readers.row_values import BadRows, folded_sentence, sentence
from sts_lightning.data.readers.text_files import read_records
from sts_lightning.data.table import LABELLED, SCORE_RANGE, Table, check_limit, sentence_columns

PUBLISHED_TRIPLETS = "nli_for_simcse.csv"
"""Name of the published file."""


def nli_pairs(
    root: str,
    path: Files | None = None,
    columns: tuple[str, str, str] = COLUMNS,
    classes: tuple[str | bool | int, ...] = CLASSES,
    limit: int | None = None,
    filter: OverlapFilter = "exact",
    scored: bool = False,
    **options: Unpack[DevTestOptions],
) -> DataSet:
    """Sentence pairs with a class (contradiction 0, neutral 1, entailment 2) or a score, in file order.

    Args:
        root: Data root, from which STS-B dev and the seven test sets are read, too.
        path: CSV, TSV or JSONL file, or several (see `Files`); ``nli/nli_pairs.tsv`` under the root if not
            given.
        columns: Names of the columns of premise, hypothesis and label.
        classes: Names of the classes, the least similar first; a label is one of them, or its index where no
            name is a number. A number or a truth value, as a command line is read, counts as its text.
        limit: Number of pairs to use, a fixed random sample; all if not given.
        filter: Criterion by which pairs that occur in a test set are dropped: ``none``, ``exact`` or
            ``normalized``.
        scored: Whether to replace classes by scores, as AnglE does: the last class (entailment) gets the
            highest score, the first one (contradiction) the lowest, and other pairs are dropped.
        **options: Dev and test pairs, see `DevTestOptions`.

    Raises:
        ValueError: An argument is out of range.
    """
    evaluation = DevAndTests(root, **options)
    check_columns(columns, 3)
    names = tuple(str(name).strip().lower() for name in classes)
    if len(set(names)) < max(2, len(names)):
        raise ValueError(f"classes must be at least two different names, got {list(classes)}.")
    check_limit(limit)
    published = path is None
    if path is not None:
        weighted(path)

    def read_file(file: Path, name: str) -> Table:
        rows = read_nli_pairs(file, columns, names, "data.columns", folded=published)
        return Table.of_rows(LABELLED, rows, name)

    def read() -> Splits:
        table = read_files(training_files(root, path, "nli/nli_pairs.tsv", part="pairs"), read_file)
        table = evaluation.without_test_pairs(table, filter)
        if scored:
            table = _with_scores(table, names)
        return evaluation.complete(table.sample(limit), published)

    return DataSet(
        read,
        label="score" if scored else "class",
        num_classes=len(names),
        published_rows=(DEFINITE_NLI_PAIRS if scored else NLI_PAIRS) if published else None,
    )


def _with_scores(table: Table, classes: Sequence[str]) -> Table:
    """Return the pairs of the first class with the lowest score and those of the last with the highest."""
    top = len(classes) - 1
    others = ~np.isin(table["label"], (0, top))
    why = classes[1] if len(classes) == 3 else "neither the first nor the last class"
    table = table.drop(others, why)
    scores = [SCORE_RANGE[1] if label == top else SCORE_RANGE[0] for label in table["label"]]
    return replace(table, columns={**table.columns, "label": scores})


def nli_triplets(
    root: str,
    path: Files | None = None,
    columns: tuple[str, ...] = ("sent0", "sent1", "hard_neg"),
    filter: OverlapFilter = "none",
    published_rows: int | None = None,
    **options: Unpack[RowOptions],
) -> DataSet:
    """Anchors with a positive and hard negatives, in file order; by default those of SimCSE.

    Args:
        root: Data root, from which STS-B dev and the seven test sets are read, too.
        path: CSV, TSV or JSONL file, or several (see `Files`); if not given, the first of
            ``nli_for_simcse.csv`` and ``nli/nli_triplets.csv`` under the root.
        columns: Names of the columns of anchor and positive, and of the hard negatives: none, one or several.
        filter: Criterion by which triplets are dropped of which the anchor and another sentence are a test
            pair: ``none``, as in the papers, ``exact`` or ``normalized``.
        published_rows: Number of triplets in the paper of the recipe; if not given, that of SimCSE's file, or
            none for other files.
        **options: Dev and test pairs, see `DevTestOptions`.

    Raises:
        ValueError: An argument is out of range.
    """
    evaluation = DevAndTests(root, **options)
    published = only_file(path) in (None, PUBLISHED_TRIPLETS)
    text = folded_sentence if published else sentence
    fewer = f", without hard negatives as in 'data.columns=[{','.join(columns[:2])}]'" if columns[2:] else ""

    def read_file(file: Path, name: str) -> Table:
        rows, bad = [], BadRows()
        for line, fields in read_records(file, list(columns), setting=f"data.columns{fewer}", bad=bad):
            with bad:
                rows.append([text(field, file, line) for field in fields])
        bad.check()
        return Table.of_rows(sentence_columns(len(columns)), rows, name)

    def read() -> Splits:
        files = training_files(root, path, PUBLISHED_TRIPLETS, "nli/nli_triplets.csv", part="triplets")
        table = read_files(files, read_file)
        return evaluation.complete(evaluation.without_test_pairs(table, filter), published)

    number = published_rows or (TRIPLETS if published else None)
    return unlabelled(columns, read, number, evaluation.keep_general)


def unlabelled(
    columns: Sequence[str],
    read: Callable[[], Splits],
    published_rows: int | None = None,
    keep_general: bool = False,
) -> DataSet:
    """Return a data set of anchors with a positive and any hard negatives.

    Raises:
        ValueError: There are fewer than two columns, or two are the same.
    """
    check_columns(columns)
    unit = {2: "pairs", 3: "triplets"}.get(len(columns), "examples")
    views = column_views(len(columns))
    return DataSet(read, views, "none", unit, published_rows=published_rows, keep_general=keep_general)

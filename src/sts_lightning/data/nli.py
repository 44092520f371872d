"""NLI pairs with a class, those of SNLI and MultiNLI or the user's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np

from sts_lightning.data.counts import DEFINITE_NLI_PAIRS, NLI_PAIRS
from sts_lightning.data.data_set import DataSet, Splits
from sts_lightning.data.dev_and_tests import DevAndTests, DevTestOptions
from sts_lightning.data.overlap import OverlapFilter
from sts_lightning.data.readers.nli import CLASSES, COLUMNS, read_nli_pairs
from sts_lightning.data.readers.tables import Source
from sts_lightning.data.sources import Files, check_columns, read_sources, training_files, weighted
from sts_lightning.data.table import LABELLED, SCORE_RANGE, Table, check_limit


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

    def read_source(source: Source, name: str) -> Table:
        rows = read_nli_pairs(source, columns, names, "data.columns", folded=published)
        return Table.of_rows(LABELLED, rows, name)

    def read() -> Splits:
        table = read_sources(training_files(root, path, "nli/nli_pairs.tsv", part="pairs"), read_source)
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

"""Pairs and triplets of a data set on the Hugging Face hub, or of a folder or file of the same formats."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Unpack

from sts_lightning.core.errors import at_setting
from sts_lightning.data.data_set import DEV, TRAINING, DataSet, Splits
from sts_lightning.data.dev_and_tests import DevAndTests, RowOptions
from sts_lightning.data.files import RESERVED, SCORED_COLUMNS, check_columns, scored_table
from sts_lightning.data.nli import unlabelled
from sts_lightning.data.overlap import OverlapFilter
from sts_lightning.data.own_pairs import DEV_FRACTION, Pairs, ScoredPairs
from sts_lightning.data.readers.hub import HubTable
from sts_lightning.data.readers.row_values import BadRows, Range, sentence
from sts_lightning.data.readers.rows import Layout, TextRow
from sts_lightning.data.rows import (
    check_kind,
    number_of_negatives,
    one_if_any,
    one_numbering,
    report_lists,
    sample_lines,
    table_of,
)
from sts_lightning.data.table import check_limit, sentence_columns

log = logging.getLogger(__name__)


def pairs_hub(
    path: str,
    seed: int = 1,
    split: str = "train",
    dev_split: str | None = None,
    test_split: str | None = None,
    config: str | None = None,
    revision: str | None = None,
    limit: int | None = None,
    columns: tuple[str, str, str] = SCORED_COLUMNS,
    score_range: Range | None = None,
    dev_fraction: float = DEV_FRACTION,
    positives_from: float | None = None,
    root: str = "data",
    keep_general: bool = False,
) -> DataSet:
    """Scored pairs of a data set on the hub, with a dev split taken from them if none is named.

    See `ScoredPairs`.

    Args:
        path: Name of the data set (owner/name), or a folder or file of Parquet, CSV or JSON.
        seed: Random seed of the split.
        split: Name of the split with the training pairs.
        dev_split: Name of the split with the dev pairs.
        test_split: Name of the split with the test pairs for the report.
        config: Name of the configuration, where the data set has several.
        revision: Commit, branch or tag; the newest commit if not given.
        limit: Number of training pairs to use, a fixed random sample; all if not given.
        columns: Names of the columns of the first sentence, the second sentence and the score.
        score_range: Lowest and highest allowed score; recognised from the training scores if not given.
        dev_fraction: Fraction of the pairs that becomes the dev split, if none is named.
        positives_from: Lowest score, on the scale of the data set, of the training pairs to keep as positives
            without a label.
        root: Data root, from which the seven test sets are read.
        keep_general: Whether the seven STS tasks are reported, before training and after it.

    Raises:
        ValueError: An argument is out of range.
    """
    scored = ScoredPairs(
        columns, score_range, positives_from, dev_split, test_split, "split", dev_fraction, seed, limit
    )
    if split in (dev_split, test_split):
        raise ValueError(f"split must not be that of the dev or test pairs, {split}.")

    def read() -> Splits:
        with at_setting("path"):
            hub = HubTable(path, columns, config, revision)

            def read_split(name: str, role: str) -> Pairs:
                setting = {TRAINING: "data.split", DEV: "data.dev_split"}.get(role, "data.test_split")
                bad = BadRows()
                table = scored_table(hub.rows(name, setting, bad, columns[2:]), score_range, bad)
                bad.check()
                table = table.read_from(f"{hub.name}, split {name}, {role}")
                return Pairs(table, f"{path}, split {name}", _task_name(path))

            train = read_split(split, TRAINING)
            general = root if keep_general else None
            return scored.splits(train.table, train.source, read_split, lambda row: f"row {row}", general)

    return DataSet(read, label=scored.label, keep_general=keep_general)


def _task_name(path: str) -> str:
    """Return the name of a data set without its owner, or with it if it is that of another score."""
    name = Path(path).name
    return name if name not in RESERVED else f"{Path(path).absolute().parent.name}/{name}"


def triplets_hub(
    root: str,
    path: str,
    columns: tuple[str, ...] | None = None,
    negatives: int | None = None,
    split: str = "train",
    config: str | None = None,
    revision: str | None = None,
    limit: int | None = None,
    filter: OverlapFilter = "none",
    published_rows: int | None = None,
    **options: Unpack[RowOptions],
) -> DataSet:
    """Anchors with positives and any hard negatives, of a data set on the hub, in its order.

    Without ``columns``, the data set is fetched at once, since it decides the number of views.

    Args:
        root: Data root, from which STS-B dev and the seven test sets are read, too.
        path: Name of the data set (owner/name), or a folder or file of Parquet, CSV or JSON.
        columns: Names of the columns of anchor and positive, and of the hard negatives: none, one or several;
            recognised if not given. A positive or a negative may be a list of texts.
        negatives: See `triplets_file`.
        split: Name of the split.
        config: Name of the configuration, where the data set has several.
        revision: Commit, branch or tag; the newest commit if not given.
        limit: Number of examples to use, a fixed random sample; all if not given.
        filter: See `nli_triplets`.
        published_rows: Number of examples in the paper of the recipe, if any.
        **options: Dev and test pairs, see `RowOptions`.

    Raises:
        ValueError: An argument is out of range.
    """
    evaluation = DevAndTests(root, **options)
    check_limit(limit)

    layout = Layout("rows", tuple(columns or ()))
    if columns is not None:
        check_columns(columns)
    else:
        with at_setting("path"):
            layout = HubTable(path, (), config, revision).layout(split, "data.split")
            check_kind(layout, path, "rows")
            log.info("%s: %s", path, layout.note)
            if layout.lists and negatives is None:
                hub = HubTable(path, layout.columns, config, revision)
                negatives = one_if_any(hub.text_rows(split, "data.split", BadRows()))
    places = number_of_negatives(layout, negatives)

    def read() -> Splits:
        bad = BadRows()
        with at_setting("path"):
            hub = HubTable(path, layout.columns, config, revision)
            lists = hub.has_lists(split)
            rows = hub.text_rows(split, "data.split", bad) if lists else _rows(hub, split, bad)
            table = table_of(rows, replace(layout, lists=lists), places, count())
            bad.check()
        table = evaluation.without_test_pairs(table.read_from(f"{hub.name}, split {split}"), filter)
        table = one_numbering(sample_lines(table, limit))
        report_lists(data_set, table)
        return evaluation.complete(table, published=False)

    data_set = unlabelled(sentence_columns(2 + places), read, published_rows, evaluation.keep_general)
    return data_set


def _rows(hub: HubTable, split: str, bad: BadRows) -> Iterator[TextRow]:
    """Yield the rows of a split whose columns hold one text each."""
    for where, _, texts in hub.rows(split, "data.split", bad):
        with bad:
            anchor, positive, *negatives = (sentence(text, where) for text in texts)
            yield TextRow(0, anchor, [positive], negatives)

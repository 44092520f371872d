"""The user's own rows of an anchor, texts that answer it and hard negatives; and texts with classes."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from sts_lightning.core.errors import DataError, counted
from sts_lightning.data.data_set import DataSet, Splits, column_views
from sts_lightning.data.dev_and_tests import DevAndTests, RowOptions
from sts_lightning.data.draws import empty_places
from sts_lightning.data.files import Files, check_columns, find_files, only_file, read_files, weighted
from sts_lightning.data.nli import PUBLISHED_TRIPLETS, nli_triplets, unlabelled
from sts_lightning.data.overlap import OverlapFilter
from sts_lightning.data.readers.row_values import BadRows
from sts_lightning.data.readers.rows import KINDS, Kind, Layout, TextRow, read_labelled, read_rows, recognise
from sts_lightning.data.table import CLASS, LINE, NEGATIVES, Table, sentence_columns, starts_of_lines

log = logging.getLogger(__name__)

HEAD = 1000
"""Rows by which it is decided whether there are hard negatives."""

SHOWN_CLASSES = 5
"""Classes that a message lists before it counts the rest."""

NO_PAIR = "the only text of its class"
"""Reason of dropping."""


def triplets_file(
    root: str,
    path: Files | None = None,
    columns: tuple[str, ...] | None = None,
    negatives: int | None = None,
    filter: OverlapFilter = "none",
    published_rows: int | None = None,
    **options: Unpack[RowOptions],
) -> DataSet:
    """Rows of an anchor with one or more positives and any hard negatives, in file order.

    Args:
        root: Data root, from which STS-B dev and the seven test sets are read, too.
        path: CSV, TSV, JSONL or Parquet file, or several with the same columns (see `Files`). SimCSE's file
            is read as `nli_triplets` reads it.
        columns: Names of the columns of anchor and positive, and of the hard negatives: none, one or several.
            In JSONL and Parquet a positive or a negative may be a list of texts. If not given, they are
            recognised.
        negatives: Hard negatives of a row, which an epoch draws from those that the row has; a place that
            stays empty counts for nothing. If not given, all columns, or one where they are lists.
        filter: See `nli_triplets`.
        published_rows: Number of rows in the paper of the recipe, if any.
        **options: Dev and test pairs, see `RowOptions`.

    Raises:
        ValueError: An argument is out of range.
        DataError: What the columns are cannot be told, or two files have different ones.
    """
    if only_file(path) in (None, PUBLISHED_TRIPLETS):
        names = columns or ("sent0", "sent1", "hard_neg")
        names = names[: number_of_negatives(Layout("rows", names), negatives) + 2]
        return nli_triplets(root, path, names, filter, published_rows, **options)
    evaluation = DevAndTests(root, **options)
    weights = weighted(path or "")
    layout = _layout(list(find_files(weights)), columns, "rows")
    if layout.lists and negatives is None:
        head = read_rows(Path(next(iter(find_files(weights)))), layout, "data.columns", BadRows())
        negatives = one_if_any(head)
    places = number_of_negatives(layout, negatives)
    number = count()

    def read_file(file: Path, name: str) -> Table:
        bad = BadRows()
        table = table_of(read_rows(file, layout, "data.columns", bad), layout, places, number)
        bad.check()
        return table.read_from(name)

    def read() -> Splits:
        table = read_files(find_files(weights), read_file)
        table = one_numbering(evaluation.without_test_pairs(table, filter))
        report_lists(data_set, table)
        return evaluation.complete(table, published=False)

    data_set = unlabelled(sentence_columns(2 + places), read, published_rows, evaluation.keep_general)
    return data_set


def _layout(files: Sequence[str], columns: Sequence[str] | None, kind: Kind) -> Layout:
    """Return what the columns of files are, and log it where it was recognised.

    Raises:
        ValueError: The given columns are too few, or two are the same.
        DataError: A file cannot be read, has rows of another kind, or other columns than the first.
    """
    if columns is not None:
        check_columns(columns, 2 if kind == "classes" else None)
        there = [Path(file) for file in files if Path(file).is_file()]  # reading says which are not
        return Layout(kind, tuple(columns), any(recognise(file, columns).lists for file in there))
    layouts = {file: recognise(Path(file)) for file in files}
    first, layout = next(iter(layouts.items()))
    for file, other in layouts.items():
        check_kind(other, file, kind)
        if other.columns != layout.columns:
            raise DataError(
                f"has the columns {', '.join(other.columns)}, but {first} has {', '.join(layout.columns)}.",
                file,
                key="path",
                hint="Files of one run need the same columns.",
            )
    log.info("%s: %s", first if len(files) == 1 else f"{len(files):,} files", layout.note)
    return replace(layout, lists=any(other.lists for other in layouts.values()))


def check_kind(layout: Layout, source: str, kind: Kind) -> None:
    """Reject rows of another kind than the data read.

    Raises:
        DataError: They are; the message says what reads them.
    """
    if layout.kind != kind:
        what, choice = KINDS[layout.kind]
        raise DataError(
            f"has {what} ({', '.join(layout.columns)}).",
            source,
            key="path",
            hint=f"data={choice} reads them; for {KINDS[kind][0]} name the columns: data.columns=[...].",
        )


def one_if_any(rows: Iterable[TextRow]) -> int:
    """Return how many hard negatives rows with lists have by default: 1, or 0 if the first rows have none."""
    return int(any(row.negatives for row in islice(rows, HEAD)))


def number_of_negatives(layout: Layout, negatives: int | None) -> int:
    """Return the number of hard negatives of a row.

    Raises:
        ValueError: It is out of range.
    """
    columns = len(layout.columns) - 2
    most = columns if not layout.lists else 1000 if columns else 0
    places = columns if negatives is None else negatives
    if not 0 <= places <= most:
        why = (
            ""
            if layout.lists and columns
            else f", as many as there are columns of hard negatives ({columns})"
        )
        raise ValueError(f"negatives must lie between 0 and {most}{why}, got {negatives}.")
    return places


def table_of(rows: Iterable[TextRow], layout: Layout, places: int, number: count[int]) -> Table:
    """Return a table row for each positive of each row.

    Args:
        rows: Rows of a file.
        layout: Its layout.
        places: Number of hard negatives of a row.
        number: Counter of the rows of all files.

    Returns:
        Columns ``sentence1``, ``sentence2``, ``line``, and the hard negatives: a column for each if there are
        as many as places, else lists.
    """
    fixed = not layout.lists and places == len(layout.columns) - 2
    names = [*sentence_columns(2 + places if fixed else 2), *([] if fixed else [NEGATIVES]), LINE]
    values: dict[str, list[Any]] = {name: [] for name in names}
    for row in rows:
        listed = row.negatives if fixed else [list(dict.fromkeys(row.negatives))]
        line = next(number)
        for positive in dict.fromkeys(row.positives):
            for name, value in zip(names, (row.anchor, positive, *listed, line), strict=True):
                values[name].append(value)
    return Table(values)


def sample_lines(table: Table, limit: int | None) -> Table:
    """Return a fixed random sample of at most ``limit`` lines with all their rows; see `Table.sample`."""
    starts = starts_of_lines(table)
    left_out = np.zeros(len(starts) - 1, dtype=bool)
    if limit is not None:
        left_out[np.random.default_rng(0).permutation(len(left_out))[limit:]] = True
    return table.drop(np.repeat(left_out, np.diff(starts)), "data.limit")


def one_numbering(table: Table) -> Table:
    """Return a table without its lines if each row is one."""
    if len(starts_of_lines(table)) <= len(table):
        return table
    return replace(table, columns={name: column for name, column in table.columns.items() if name != LINE})


def report_lists(data_set: DataSet, table: Table) -> None:
    """Log how many lines have several positives, and how many places of hard negatives stay empty."""
    if LINE in table.columns:
        sizes = np.diff(starts_of_lines(table))
        log.info(
            "%s with several positives, of which an epoch has one, each in its turn: %s",
            counted(int((sizes > 1).sum()), "line"),
            counted(int(sizes[sizes > 1].sum()), "positive"),
        )
    if NEGATIVES not in table.columns:
        return
    places = len(data_set.views) - 2
    lengths = np.array([len(listed) for listed in table[NEGATIVES]])
    log.info(
        "hard negatives: %d a row (data.negatives), drawn in each epoch; %s with more of them%s",
        places,
        counted(int((lengths > places).sum()), "row"),
        f", and {counted(empty, 'place')} of {places * len(table):,} are empty, which count for nothing"
        if (empty := empty_places(data_set, table))
        else "",
    )


def labels_file(
    root: str,
    path: Files,
    columns: tuple[str, str] | None = None,
    **options: Unpack[RowOptions],
) -> DataSet:
    """Texts with a class, such as an intent: each is an anchor, with another text of its class as positive.

    The positive is drawn anew in each epoch. No text of a class of the anchor is a negative of it.

    Args:
        root: Data root, from which STS-B dev and the seven test sets are read, too.
        path: CSV, TSV, JSONL or Parquet file, or several with the same columns (see `Files`).
        columns: Names of the columns of text and class. If not given, they are recognised.
        **options: Dev and test pairs, see `RowOptions`.

    Raises:
        ValueError: An argument is out of range.
        DataError: What the columns are cannot be told, or two files have different ones.
    """
    evaluation = DevAndTests(root, **options)
    weights = weighted(path)
    layout = _layout(list(find_files(weights)), columns, "classes")

    def read_file(file: Path, name: str) -> Table:
        bad = BadRows()
        rows = list(read_labelled(file, layout, "data.columns", bad))
        bad.check()
        return Table.of_rows(("sentence1", CLASS), [row[1:] for row in rows], name)

    def read() -> Splits:
        table = with_partners(read_files(find_files(weights), read_file))
        _report_classes(table)
        return evaluation.complete(table, published=False)

    return DataSet(read, column_views(2), "none", "texts", classes=True, keep_general=evaluation.keep_general)


def with_partners(table: Table) -> Table:
    """Drop the texts of a class that has no other text, name their classes and count them.

    Args:
        table: Texts with classes.
    """
    names = table[CLASS]
    texts: dict[str, set[str]] = defaultdict(set)
    for text, name in zip(table["sentence1"], names, strict=True):
        texts[name].add(text)
    alone = [name for name, of_class in texts.items() if len(of_class) == 1]
    if alone:
        more = len(alone) - SHOWN_CLASSES
        log.warning(
            "WARNING: %s of one text, which has no other to be paired with and is left out: %s%s",
            _classes(len(alone)),
            ", ".join(alone[:SHOWN_CLASSES]),
            f", and {more:,} more" if more > 0 else "",
        )
    return table.drop(np.array([len(texts[name]) == 1 for name in names], bool), NO_PAIR)


def _report_classes(table: Table) -> None:
    classes: dict[str, set[str]] = defaultdict(set)
    for text, name in zip(table["sentence1"], table[CLASS], strict=True):
        classes[text].add(name)
    several = sum(len(names) > 1 for names in classes.values())
    log.info(
        "%s of %s%s",
        counted(len(classes), "different text"),
        _classes(len(set().union(*classes.values()))),
        f"; {counted(several, 'text')} in several, whose texts are no negatives of them" if several else "",
    )


def _classes(number: int) -> str:
    return f"{number:,} class{'' if number == 1 else 'es'}"

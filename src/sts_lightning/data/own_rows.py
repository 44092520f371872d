"""Rows of an anchor, texts that answer it and hard negatives (SimCSE's too), and texts with classes."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count, islice
from typing import Unpack

import numpy as np

from sts_lightning.core.errors import DataError, at_setting, counted
from sts_lightning.data.counts import TRIPLETS
from sts_lightning.data.data_set import DataSet, Splits, column_views
from sts_lightning.data.dev_and_tests import DevAndTests, RowOptions
from sts_lightning.data.draws import empty_places
from sts_lightning.data.overlap import OverlapFilter
from sts_lightning.data.readers.layouts import (
    KINDS,
    Kind,
    Layout,
    TextRow,
    read_labeled,
    read_texts,
    recognise,
)
from sts_lightning.data.readers.row_values import folded_sentence, sentence
from sts_lightning.data.readers.tables import Input, Source, Split
from sts_lightning.data.sources import (
    Files,
    check_columns,
    only_file,
    open_hub,
    own_files,
    read_sources,
    training_files,
)
from sts_lightning.data.table import (
    CLASS,
    LINE,
    NEGATIVES,
    Table,
    check_limit,
    sentence_columns,
    starts_of_lines,
)

log = logging.getLogger(__name__)

SIMCSE = "nli_for_simcse.csv"
"""Name of the published file of triplets."""

HEAD = 1000
"""Rows by which it is decided whether there are hard negatives."""

SHOWN_CLASSES = 5
"""Classes that a message lists before it counts the rest."""

NO_PAIR = "the only text of its class"
"""Reason of dropping."""


def triplets(
    root: str,
    path: Files | None = None,
    columns: tuple[str, ...] | None = None,
    negatives: int | None = None,
    filter: OverlapFilter = "none",
    published_rows: int | None = None,
    limit: int | None = None,
    split: str | None = None,
    config: str | None = None,
    revision: str | None = None,
    **options: Unpack[RowOptions],
) -> DataSet:
    """Rows of an anchor with one or more positives and any hard negatives, in their order.

    Without ``columns``, the files or the data set of the hub are looked at at once: they decide the number of
    views.

    Args:
        root: Data root, from which STS-B dev and the seven test sets are read, too.
        path: CSV, TSV, JSONL or Parquet file, or several with the same columns (see `Files`); with ``split``
            the name of a data set on the hub (owner/name), or a folder or file of Parquet, CSV or JSON. If
            not given, SimCSE's triplets: the first of ``nli_for_simcse.csv`` and ``nli/nli_triplets.csv``
            under the root. White space is folded in these alone.
        columns: Names of the columns of anchor and positive, and of the hard negatives: none, one or several.
            In JSONL and Parquet a positive or a negative may be a list of texts. If not given, they are
            recognised.
        negatives: Hard negatives of a row, which an epoch draws from those that the row has; a place that
            stays empty counts for nothing. If not given, all columns, or one where they are lists.
        filter: Criterion by which rows are dropped of which the anchor and another text are a test pair:
            ``none``, as in the papers, ``exact`` or ``normalized``.
        published_rows: Number of rows in the paper of the recipe; if not given, that of SimCSE's file, or
            none for other files.
        limit: Number of rows to use, a fixed random sample; all if not given.
        split: Split of a data set on the hub.
        config: Configuration of it, where it has several.
        revision: Commit, branch or tag of it; the newest commit if not given.
        **options: Dev and test pairs, see `RowOptions`.

    Raises:
        ValueError: An argument is out of range.
        DataError: What the columns are cannot be told, or two files have different ones.
    """
    evaluation = DevAndTests(root, **options)
    check_limit(limit)
    if columns is not None:
        check_columns(columns)
    published = split is None and only_file(path) in (None, SIMCSE)

    def find(named: Sequence[str] = ()) -> list[Input]:
        if split is not None:
            return [open_hub(path, named, config, revision).split(split, "data.split")]
        return training_files(root, path, SIMCSE, "nli/nli_triplets.csv", part="triplets")

    if published or (columns is not None and split is not None):
        layout = Layout("rows", columns or ("sent0", "sent1", "hard_neg"))
    else:
        layout = _layout(find(), columns, "rows")
    if layout.lists and negatives is None:
        head = islice(read_texts(find()[0].source, layout, "data.columns"), HEAD)
        negatives = int(any(row.negatives for row in head))
    places = _places(layout, negatives)
    number = count()

    def read() -> Splits:
        sources, found = find(layout.columns), layout
        if published:
            found = replace(layout, columns=layout.columns[: 2 + places])
        elif split is not None:
            found = _layout(sources, layout.columns, "rows")

        def read_source(source: Source, name: str) -> Table:
            rows = read_texts(source, found, "data.columns", folded_sentence if published else sentence)
            return _table_of(rows, found, places, number).read_from(name)

        table = evaluation.without_test_pairs(read_sources(sources, read_source), filter)
        table = _without_lines(table if limit is None else _sample(table, limit))
        _report_lists(data_set, table)
        return evaluation.complete(table, published)

    unit = {0: "pairs", 1: "triplets"}.get(places, "examples")
    rows = published_rows or (TRIPLETS if published else None)
    views = column_views(2 + places)
    keep_general = evaluation.keep_general
    data_set = DataSet(read, views, "none", unit, published_rows=rows, keep_general=keep_general)
    return data_set


def _layout(sources: Sequence[Input], columns: Sequence[str] | None, kind: Kind) -> Layout:
    """Return what the columns of sources are, and log it where it was recognised.

    Raises:
        DataError: A source cannot be read, has rows of another kind, or other columns than the first.
    """
    with at_setting("path"):
        if columns is not None:
            there = [
                each.source for each in sources if isinstance(each.source, Split) or each.source.is_file()
            ]
            return Layout(kind, tuple(columns), any(recognise(source, columns).lists for source in there))
        layouts = {str(each.source): recognise(each.source) for each in sources}
        first, layout = next(iter(layouts.items()))
        for source, other in layouts.items():
            if other.kind != kind:
                what, choice = KINDS[other.kind]
                raise DataError(
                    f"has {what} ({', '.join(other.columns)}).",
                    source,
                    hint=f"data={choice} reads them; for {KINDS[kind][0]} name the columns: "
                    "data.columns=[...].",
                )
            if other.columns != layout.columns:
                raise DataError(
                    f"has the columns {', '.join(other.columns)}, but {first} has "
                    f"{', '.join(layout.columns)}.",
                    source,
                    hint="Files of one run need the same columns.",
                )
    log.info("%s: %s", first if len(layouts) == 1 else f"{len(layouts):,} files", layout.note)
    return replace(layout, lists=any(other.lists for other in layouts.values()))


def _places(layout: Layout, negatives: int | None) -> int:
    """Return the number of hard negatives of a row.

    Raises:
        ValueError: It is out of range.
    """
    columns = len(layout.columns) - 2
    lists = layout.lists and columns > 0
    most = 1000 if lists else columns
    places = columns if negatives is None else negatives
    if not 0 <= places <= most:
        why = "" if lists else f", as many as there are columns of hard negatives ({columns})"
        raise ValueError(f"negatives must lie between 0 and {most}{why}, got {negatives}.")
    return places


def _table_of(rows: Iterable[TextRow], layout: Layout, places: int, number: count[int]) -> Table:
    """Return a table row for each positive of each row.

    Args:
        rows: Rows of a source.
        layout: Its layout.
        places: Number of hard negatives of a row.
        number: Counter of the rows of all sources.

    Returns:
        Columns ``sentence1``, ``sentence2``, ``line``, and the hard negatives: a column for each if there are
        as many as places, else lists.
    """
    fixed = not layout.lists and places == len(layout.columns) - 2
    names = [*sentence_columns(2 + places if fixed else 2), *([] if fixed else [NEGATIVES]), LINE]
    values = []
    for anchor, positives, negatives in rows:
        listed = negatives if fixed else [list(dict.fromkeys(negatives))]
        line = next(number)
        values += [(anchor, positive, *listed, line) for positive in dict.fromkeys(positives)]
    return Table.of_rows(names, values)


def _sample(table: Table, limit: int) -> Table:
    """Return a fixed random sample of at most ``limit`` lines with all their rows; see `Table.sample`."""
    starts = starts_of_lines(table)
    left_out = np.zeros(len(starts) - 1, dtype=bool)
    left_out[np.random.default_rng(0).permutation(len(left_out))[limit:]] = True
    return table.drop(np.repeat(left_out, np.diff(starts)), "data.limit")


def _without_lines(table: Table) -> Table:
    """Return a table without the numbers of its lines if each row is one."""
    if len(starts_of_lines(table)) <= len(table):
        return table
    return replace(table, columns={name: column for name, column in table.columns.items() if name != LINE})


def _report_lists(data_set: DataSet, table: Table) -> None:
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


def labeled_texts(
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
    if columns is not None:
        check_columns(columns, 2)
    sources = own_files(path)
    layout = _layout(sources, columns, "classes")

    def read_source(source: Source, name: str) -> Table:
        return Table.of_rows(("sentence1", CLASS), read_labeled(source, layout, "data.columns"), name)

    def read() -> Splits:
        table = _with_partners(read_sources(sources, read_source))
        _report_classes(table)
        return evaluation.complete(table, published=False)

    return DataSet(read, column_views(2), "none", "texts", classes=True, keep_general=evaluation.keep_general)


def _with_partners(table: Table) -> Table:
    """Drop the texts of a class that has no other text, and name their classes."""
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

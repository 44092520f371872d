"""Dev and test data in files: scored pairs, rows of a query and its answers, texts with classes, BEIR's."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sts_lightning.core.errors import ConfigError, DataError
from sts_lightning.core.files import parse_json
from sts_lightning.data.ranking import Ranking, make_ranking, rank_classes
from sts_lightning.data.readers.layouts import Layout, read_labeled, read_texts, recognise
from sts_lightning.data.readers.lines import numbered_lines, stem_of
from sts_lightning.data.readers.row_values import Range, parse_rows, score, sentence, text_of
from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.data.readers.tables import Source, read_rows
from sts_lightning.data.table import LABELLED, Table, require_varied_scores
from sts_lightning.data.tasks import Task

RESERVED = ("dev", "average", "rank", "minutes", "GB")
"""Other columns of the tables of scores, of which no test task has the name."""

SCORED_COLUMNS = ("sentence1", "sentence2", "score")
"""Usual names of the columns of the user's own pairs."""


def task_name(path: Path, alone: bool = True, name: str | None = None) -> str:
    """Return the name of the test task of a file: its own without the suffix, with its folder where needed.

    Args:
        path: Path of the file.
        alone: Whether no other file has this name.
        name: Its name, if not that without the suffix.
    """
    name = stem_of(path) if name is None else name
    return name if alone and name not in RESERVED else f"{path.absolute().parent.name}/{name}"


def read_text_pairs(path: Path, columns: Sequence[str]) -> tuple[list[tuple[str, str]], list[int]]:
    """Return the pairs of a file without scores, for a command with ``--columns``, and the last line of each.

    Raises:
        DataError: The file cannot be read, or rows are malformed.
    """

    def parse(texts: Sequence[str]) -> tuple[str, str]:
        first, second = map(sentence, texts)
        return first, second

    rows = list(read_rows(path, columns, parse, setting="--columns"))
    return [pair for _, pair in rows], [line for line, _ in rows]


def read_scored_pairs(
    source: Source,
    columns: Sequence[str],
    score_range: Range | None,
    setting: str,
    hint: str | None = None,
) -> tuple[Table, list[int]]:
    """Read scored pairs, on the scale that they have, and the line of each.

    Args:
        source: The file, or a split of the hub.
        columns: Names of the columns of the first sentence, the second sentence and the score.
        score_range: Lowest and highest allowed score; not checked if not given.
        setting: What the user names the columns with, for errors.
        hint: Suggested fix where no row can be read.
    """

    def parse(fields: Sequence[str]) -> tuple[str, str, float]:
        first, second, gold = fields
        value = score(gold, score_range)
        return sentence(first), sentence(second), value

    rows = list(read_rows(source, columns, parse, numbers=columns[2:], setting=setting, hint=hint))
    return Table.of_rows(LABELLED, [row for _, row in rows]), [line for line, _ in rows]


def load_test_files(
    files: Sequence[str],
    columns: tuple[str, str, str] = SCORED_COLUMNS,
    score_range: Range | None = None,
    setting: str = "sentence1, sentence2 and score",
) -> list[Task]:
    """Read each file as a test task of its name without the suffix, or a folder in BEIR's layout.

    Pairs with a score are scored, and rows of a query and its answers are ranked: each query ranks all
    answers and hard negatives of the file. Texts with classes rank each other. Which of them a file has is
    told from its columns (`recognise`), unless these are named.

    Scores keep their scale, which changes no correlation. Files of one name in different folders are named
    with the folder, and so is a file with a name of `RESERVED`.

    Args:
        files: Paths of CSV, TSV, JSONL or Parquet files, or of folders.
        columns: Names of the columns of the first sentence, the second sentence and the score.
        score_range: Lowest and highest allowed score; not checked if not given.
        setting: What the user names the columns with, for errors.

    Raises:
        DataError: A file cannot be read, a row is malformed, or all scores of a file are equal.
        ConfigError: A file is named twice, two have the same name, or two columns are the same.
    """
    if len(set(columns)) < 3:
        raise ConfigError(
            f"{setting} must name three different columns, got {', '.join(columns)}.",
            key=setting.partition(",")[0],
        )
    paths = [Path(file) for file in files]
    stems = Counter(map(stem_of, paths))
    names = [task_name(path, stems[stem_of(path)] == 1) for path in paths]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ConfigError(
            f"{', '.join(twice)} would be the name of more than one test file.",
            key="test",
            hint="Name each file once, and rename files that differ in nothing but their suffix.",
        )
    tasks: list[Task] = []
    for name, path in zip(names, paths, strict=True):
        if path.is_dir():
            tasks.append(replace(read_beir(path, "test"), name=name))
            continue
        layout = recognise_task(path) if tuple(columns) == SCORED_COLUMNS else None
        if layout is None or layout.kind == "scored":
            named = columns if layout is None else layout.columns
            table, _ = read_scored_pairs(path, named, score_range, setting)
            require_varied_scores(table, path)
            tasks.append(STSTask(name, {"test": table}))
        elif layout.kind == "classes":
            tasks.append(rank_classes(name, read_labeled(path, layout, "test"), path))
        else:
            tasks.append(make_ranking(name, read_texts(path, layout, "test")))
    return tasks


def recognise_task(path: Path) -> Layout | None:
    """Return what the columns of a test file are; None where it cannot be told."""
    with contextlib.suppress(DataError):  # the reader of scored pairs says what is wrong
        return recognise(path)
    return None


def read_beir(folder: Path, split: str) -> Ranking:
    """Read a folder in BEIR's layout: ``queries.jsonl``, ``corpus.jsonl`` and ``qrels/SPLIT.tsv``.

    The queries are those of the split, and a document is right if its score there is above 0. The text of a
    document begins with its title, as in BEIR. All documents are held in memory.

    Raises:
        DataError: A file is missing or malformed, or names a query or document that is not there.
    """
    queries, corpus = (_read_identified(folder / name) for name in ("queries.jsonl", "corpus.jsonl"))
    path = folder / "qrels" / f"{split}.tsv"

    def parse(text: str) -> tuple[str, str, float]:
        fields = text.split("\t")
        if len(fields) != 3:
            raise DataError(f"expected query-id, corpus-id and score, found {len(fields)} columns.")
        query, document, relevance = fields
        for name, known, where in ((query, queries, "queries"), (document, corpus, "corpus")):
            if name not in known:
                raise DataError(f"{name!r} is no _id of {where}.jsonl.")
        return query, document, score(relevance)

    lines = (row for row in numbered_lines(path) if row[0] > 1 or not row[1].rstrip().endswith("\tscore"))
    right: dict[str, set[str]] = {}
    for _, (query, document, relevance) in parse_rows(path, lines, parse):
        if relevance > 0:
            right.setdefault(query, set()).add(document)
    if not right:
        raise DataError("no query has a document with a score above 0.", path)
    place = {name: number for number, name in enumerate(corpus)}
    return Ranking(
        folder.resolve().name,
        [queries[name] for name in right],
        list(corpus.values()),
        [sorted(place[name] for name in names) for names in right.values()],
        np.zeros((0, 3), dtype=np.int64),
    )


def _read_identified(path: Path) -> Mapping[str, str]:
    """Return the texts of a file of BEIR's by their ids, with titles before them."""
    texts: dict[str, str] = {}

    def parse(text: str) -> None:
        try:
            record = parse_json(text)
        except ValueError as error:
            raise DataError(f"not valid JSON ({error}).") from error
        if not isinstance(record, dict) or not {"_id", "text"} <= record.keys():
            raise DataError("expected an object with _id and text.")
        name = text_of(record["_id"], "_id", number=True)
        if name in texts:
            raise DataError(f"the _id {name!r} occurs more than once.")
        parts = [text_of(record.get(key), key) for key in ("title", "text")]
        texts[name] = sentence(" ".join(filter(None, parts)).strip())

    for _ in parse_rows(path, numbered_lines(path), parse):
        pass
    return texts

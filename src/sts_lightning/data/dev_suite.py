"""Dev pairs of several kinds, none of them in a test set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from pkgutil import resolve_name

import numpy as np

from sts_lightning.core.choices import DevSet, SentEvalText
from sts_lightning.data.fetch import fetched_by
from sts_lightning.data.overlap import pair_key, pairs_in_tables, why_dropped
from sts_lightning.data.readers.nli import CLASSES, read_nli_pairs
from sts_lightning.data.readers.sts_sets import (
    load_sickr,
    load_sts_tasks,
    load_stsb,
    load_stsb_genres,
    tables_of,
    text_found,
)
from sts_lightning.data.table import LABELLED, PART, SCORE_RANGE, SourceCount, Table, require_varied_scores

STS_PARTS = ("stsb", "sick", "news")
"""Parts with graded scores, which are taken whole."""

HELD_OUT = "MSRpar"
"""Genre of STS-B train that is a part of the suite."""

SAMPLE = 500
"""Pairs of the NLI and the paraphrase part: a fixed random sample."""


def load_clean_stsb(
    root: str, text: SentEvalText, counts: list[SourceCount], further: Sequence[Table] = ()
) -> Table:
    """Load the part ``stsb`` of the suite: STS-B dev without the pairs that occur in a test set.

    Args and errors are those of `load_dev_suite`.
    """
    files = {"stsb": load_stsb(root, "dev")}
    read = files if text == "raw" else {"stsb": load_stsb(root, "dev", text)}
    table = _clean_parts(root, files, read, counts, further, "stsb_clean")
    return replace(table, columns={name: table[name] for name in LABELLED})


def load_dev_suite(
    root: str, text: SentEvalText, counts: list[SourceCount], further: Sequence[Table] = ()
) -> Table:
    """Load the parts of the suite, one after another, with the column `PART`.

    ========== =====================================================================
    part       pairs
    ========== =====================================================================
    stsb       STS-B dev, of which three quarters are pairs of STS12-16's test sets
    sick       SICK-R trial
    news       STS-B train, genre `HELD_OUT`
    nli        `SAMPLE` NLI pairs, ranked by class
    paraphrase `SAMPLE` pairs of MRPC's training set, paraphrase or not
    ========== =====================================================================

    A pair that occurs in a test set or in an earlier part, in either order, compared by lower-cased letters
    and digits, is dropped.

    Args:
        root: Data root in SentEval's layout.
        text: Text of STS-B and SICK; the other parts are as their files have them.
        counts: List to which the rows read and dropped of each part are appended.
        further: Test pairs besides the seven test sets.

    Raises:
        DataError: A file is missing or malformed, or a part is left without varied scores.
    """
    news = [row for row, genre in enumerate(load_stsb_genres(root, "train")) if genre == HELD_OUT]
    # Rows are chosen by the text of the files, so that the suite is the same whatever text is read.
    files = _sts_parts(root, "raw", news) | {"nli": _nli_pairs(root), "paraphrase": _paraphrases(root)}
    read = files if text == "raw" else files | _sts_parts(root, text, news)
    return _clean_parts(root, files, read, counts, further, "suite")


def _clean_parts(
    root: str,
    files: dict[str, Table],
    read: dict[str, Table],
    counts: list[SourceCount],
    further: Sequence[Table],
    dev: DevSet,
) -> Table:
    """Return the pairs of each part, as they are read, that are in no test set and no earlier part."""
    tests = [*further, *tables_of(load_sts_tasks(root))]
    in_tests, seen = pairs_in_tables(tests, "normalized"), set[frozenset[str]]()
    rows: list[tuple[str, str, float, str]] = []
    for name, table in files.items():
        whole = name in STS_PARTS
        # Twice the sample, since some of it is dropped; comparing all NLI pairs would take ten seconds.
        drawn = list(range(len(table))) if whole else _sample(range(len(table)), 2 * SAMPLE)
        pairs = table.pairs
        kept = [row for row in drawn if in_tests.find(*pairs[row]) is None]
        first = _not_seen(table, kept, seen)
        chosen = first if whole else _sample(first, SAMPLE)
        why = (why_dropped("normalized"), "in the dev set before", "not in the sample")
        lost = [len(drawn) - len(kept), len(kept) - len(first)]
        lost.append(len(table) - sum(lost) - len(chosen))
        counts.append(SourceCount(f"dev part {name}", len(table), dict(zip(why, lost, strict=True))))
        part = read[name][np.asarray(chosen, dtype=np.int64)]
        require_varied_scores(part, f"dev={dev}, part {name}")
        columns = (part[column] for column in LABELLED)
        rows += [(*row, name) for row in zip(*columns, strict=True)]
    return replace(Table.of_rows((*LABELLED, PART), rows), text=text_found(read.values()))


def without_dev_pairs(train: Table, dev: Table) -> Table:
    """Drop the training examples of which two sentences are a dev pair, and count them.

    Pairs are compared in either order, by lower-cased letters and digits.

    Args:
        train: Training examples.
        dev: Dev pairs.
    """
    pairs = {pair_key(first, second, "normalized") for first, second in dev.pairs}
    views = [train[column] for column in train.columns if column.startswith("sentence")]
    common = [
        any(pair_key(*pair, "normalized") in pairs for pair in combinations(example, 2))
        for example in zip(*views, strict=True)
    ]
    return train.drop(np.array(common, dtype=bool), "in the dev set")


def _sts_parts(root: str, text: SentEvalText, news: Sequence[int]) -> dict[str, Table]:
    tables = (
        load_stsb(root, "dev", text),
        load_sickr(root, "trial", text),
        load_stsb(root, "train", text)[np.asarray(news, dtype=np.int64)],
    )
    return dict(zip(STS_PARTS, tables, strict=True))


def _not_seen(table: Table, rows: Sequence[int], seen: set[frozenset[str]]) -> list[int]:
    """Return the rows whose pair has not been seen, and remember these pairs."""
    first_rows, pairs = [], table.pairs
    for row in rows:
        key = pair_key(*pairs[row], "normalized")
        if key not in seen:
            first_rows.append(row)
            seen.add(key)
    return first_rows


def _sample(rows: Sequence[int], size: int) -> list[int]:
    """Return a fixed random sample of rows, in order; all if there are no more."""
    chosen = np.random.default_rng(0).permutation(len(rows))[:size]
    return [rows[index] for index in sorted(chosen.tolist())]


def _nli_pairs(root: str) -> Table:
    with fetched_by("pairs", root):
        pairs = read_nli_pairs(Path(root) / "nli" / "nli_pairs.tsv")
        step = SCORE_RANGE[1] / (len(CLASSES) - 1)  # only the order affects Spearman's correlation
        rows = [(premise, hypothesis, step * index) for premise, hypothesis, index in pairs]
        return Table.of_rows(LABELLED, rows)


def _paraphrases(root: str) -> Table:
    [task] = resolve_name("sts_lightning.papers.classification:load_transfer_tasks")(root, ("MRPC",))
    low, high = SCORE_RANGE
    pairs = zip(task.train.sentences, task.train.labels, strict=True)
    rows = [(first, second, high if label else low) for (first, second), label in pairs]
    return Table.of_rows(LABELLED, rows)

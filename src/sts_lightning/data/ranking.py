"""Queries, each of which ranks candidates: put together from rows, or held out of the rows that train."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sts_lightning.core.errors import DataError, counted
from sts_lightning.data.overlap import spelled_alike
from sts_lightning.data.readers.row_values import fold
from sts_lightning.data.table import CLASS, NEGATIVES, Table, sentence_columns, summary

FEWEST = 50
"""Anchors from which on some are held out: of fewer, a tenth decides nothing."""

CANDIDATES = 5_000
"""Usual number of candidates: encoding more would take longer than the training between two evaluations."""

QueryRow = tuple[str, Sequence[str], Sequence[str]]
"""A query, its answers and its hard negatives."""


@dataclass(frozen=True)
class Ranking:
    """Queries, each of which ranks the same candidates, and the candidates that answer it.

    Attributes:
        name: Name of the task.
        queries: Q texts.
        candidates: C texts. One that is the query itself is left out of the ranking of that query, unless it
            is right.
        relevant: Candidates that answer each query, at least one.
        triplets: Query, right candidate and hard negative of each triplet of the data, (T, 3); T may be 0.
    """

    name: str
    queries: Sequence[str]
    candidates: Sequence[str]
    relevant: Sequence[Sequence[int]]
    triplets: np.ndarray

    def __len__(self) -> int:
        return len(self.queries)

    @cached_property
    def left_out(self) -> list[list[int]]:
        """Candidates that are the text of each query, and no answer to it."""
        places: dict[str, list[int]] = {}
        for place, text in enumerate(self.candidates):
            places.setdefault(one_text(text), []).append(place)
        return [
            [place for place in places.get(one_text(query), ()) if place not in right]
            for query, right in zip(self.queries, self.relevant, strict=True)
        ]

    @cached_property
    def pairs(self) -> Table:
        """Each query with each of its answers, as a table of pairs."""
        rows = [
            (query, self.candidates[place])
            for query, right in zip(self.queries, self.relevant, strict=True)
            for place in right
        ]
        return Table({"sentence1": [row[0] for row in rows], "sentence2": [row[1] for row in rows]})

    @cached_property
    def hash(self) -> str:
        """Hash of the texts and of what answers what."""
        content = (list(self.queries), list(self.candidates), [sorted(right) for right in self.relevant])
        text = repr((*content, self.triplets.tolist()))
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()

    def texts(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield each role with its texts."""
        yield "query", self.queries
        yield "document", self.candidates


def make_ranking(
    name: str,
    rows: Iterable[QueryRow],
    further: Iterable[str] = (),
    most: int | None = None,
    seed: int = 1,
) -> Ranking:
    """Make a ranking of rows: all answers of a query are right, and all texts of an answer candidates.

    Texts that differ in case and white space alone are one text.

    Args:
        name: Name of the task.
        rows: Query, its answers and its hard negatives; a query may occur in several.
        further: Further candidates.
        most: Maximum number of candidates; answers and hard negatives always stay. None for no limit.
        seed: Random seed of the further candidates that are left out.
    """
    queries: dict[str, str] = {}
    right: dict[str, dict[str, None]] = {}
    wrong: dict[str, dict[str, None]] = {}
    # In the order of the data: of equal cosines the first one wins, which must not be the right one.
    texts: dict[str, str] = {}
    for text in further:
        texts.setdefault(one_text(text), text)
    needed: set[str] = set()
    for query, answers, negatives in rows:
        key = one_text(query)
        queries.setdefault(key, query)
        for found, into in ((answers, right), (negatives, wrong)):
            keys = into.setdefault(key, {})
            for text in found:
                texts.setdefault(one_text(text), text)
                keys[one_text(text)] = None
                needed.add(one_text(text))
    if most is not None and len(texts) > most:
        others = [key for key in texts if key not in needed]
        left = max(0, most - len(needed))
        drawn = np.random.default_rng(seed).permutation(len(others))[:left]
        kept = needed | {others[index] for index in drawn}
        texts = {key: text for key, text in texts.items() if key in kept}
    place = {key: number for number, key in enumerate(texts)}
    triplets = [
        (number, place[answer], place[negative])
        for number, key in enumerate(queries)
        for answer in right[key]
        for negative in wrong[key]
        if negative not in right[key]
    ]
    return Ranking(
        name,
        list(queries.values()),
        list(texts.values()),
        [[place[answer] for answer in right[key]] for key in queries],
        np.array(triplets, dtype=np.int64).reshape(-1, 3),
    )


def one_text(text: str) -> str:
    """Return what texts have in common that differ in case and white space alone."""
    return fold(text).casefold()


def hold_out(train: Table, fraction: float, most: int, seed: int) -> tuple[Table, Ranking]:
    """Hold anchors out of rows of a query and its answers, or of texts with classes, and rank with them.

    All rows of an anchor are held out together, whatever its case and punctuation, and so are rows that have
    it as an answer. Candidates are all answers of the data, and the hard negatives of the rows held out;
    right are all answers that the data have for an anchor. Texts with classes rank those that stay in the
    training data, and those of the same class are right.

    Args:
        train: Training examples.
        fraction: Fraction of the anchors to hold out.
        most: Maximum number of candidates.
        seed: Random seed.

    Returns:
        The rows that are left, and the ranking.

    Raises:
        DataError: There are fewer than `FEWEST` anchors.
    """
    anchors = train["sentence1"]
    keys = [spelled_alike(text) for text in anchors]
    spelling: dict[str, str] = {}  # the first one stands for all, or the answers of another would be wrong
    for key, text in zip(keys, anchors, strict=True):
        spelling.setdefault(key, text)
    distinct = list(spelling)
    if len(distinct) < FEWEST:
        raise DataError(
            f"{counted(len(distinct), 'anchor')} are too few to hold some of them out for the selection of "
            f"weights; {FEWEST} are needed.",
            summary([source.source for source in train.sources], " + "),
            key="data.dev_fraction",
            hint="Give rows or scored pairs to select by, data.dev_path=FILE, or select by STS-B dev with "
            "data.dev_fraction=0, which may prefer the untuned model.",
        )
    size = max(1, round(fraction * len(distinct)))
    order = np.random.default_rng(seed).permutation(len(distinct)).tolist()
    shuffled = [distinct[index] for index in order]
    if CLASS in train.columns:
        return _hold_out_texts(train, keys, shuffled, size, most, seed)
    held = set(shuffled[:size])
    inside = np.array([key in held for key in keys])
    answers = train["sentence2"]
    as_answer = np.array([spelled_alike(text) in held for text in answers])
    negatives = _negatives(train)
    rows = [(spelling[keys[row]], [answers[row]], negatives(row)) for row in np.flatnonzero(inside).tolist()]
    ranking = make_ranking("dev", rows, answers, most, seed)
    return train.drop(inside | as_answer, "dev split"), ranking


def _negatives(train: Table) -> Any:
    """Return a function from a row to its hard negatives."""
    columns = [train[name] for name in train.columns if name in _further(train)]
    lists = train[NEGATIVES] if NEGATIVES in train.columns else [[]] * len(train)
    return lambda row: [*(column[row] for column in columns), *(lists[row] or ())]


def _further(train: Table) -> tuple[str, ...]:
    return sentence_columns(len(train.columns))[2:]


def _hold_out_texts(
    train: Table,
    keys: Sequence[str],
    shuffled: Sequence[str],
    size: int,
    most: int,
    seed: int,
) -> tuple[Table, Ranking]:
    """Hold texts out, of which two of each class have to stay."""
    texts, classes = train["sentence1"], train[CLASS]
    rows_of: dict[str, list[int]] = {}
    for row, key in enumerate(keys):
        rows_of.setdefault(key, []).append(row)
    left: dict[str, int] = {}
    for rows in rows_of.values():
        for name in {classes[row] for row in rows}:
            left[name] = left.get(name, 0) + 1
    held: set[str] = set()
    for key in shuffled:
        names = {classes[row] for row in rows_of[key]}
        if len(held) == size:
            break
        if all(left[name] > 2 for name in names):
            held.add(key)
            for name in names:
                left[name] -= 1
    inside = np.array([key in held for key in keys])
    staying: dict[str, list[str]] = {}
    for row in np.flatnonzero(~inside).tolist():
        staying.setdefault(classes[row], []).append(texts[row])
    if sum(map(len, staying.values())) > most:  # of each class the same share
        generator = np.random.default_rng(seed)
        share = most / sum(map(len, staying.values()))
        for name, of_class in staying.items():
            drawn = generator.permutation(len(of_class))[: max(1, round(share * len(of_class)))]
            staying[name] = [of_class[index] for index in sorted(drawn.tolist())]
    held_rows: list[QueryRow] = [
        (texts[row], staying[classes[row]], ()) for row in np.flatnonzero(inside).tolist()
    ]
    further = [text for of_class in staying.values() for text in of_class]
    return train.drop(inside, "dev split"), make_ranking("dev", held_rows, further)


def rank_classes(
    name: str,
    labelled: Sequence[tuple[str, str]],
    source: Path | str,
    among: Sequence[tuple[str, str]] | None = None,
) -> Ranking:
    """Let texts rank others, of which those of the same class are right.

    Args:
        name: Name of the task.
        labelled: Texts with their classes.
        source: Name of the data, for errors.
        among: Texts that are ranked, with their classes; by default the same texts, each without itself.

    Raises:
        DataError: No text has another one of its class.
    """
    of_class: dict[str, list[str]] = {}
    for text, label in labelled if among is None else among:
        of_class.setdefault(label, []).append(text)
    rows: list[QueryRow] = []
    for text, label in labelled:
        answers = [other for other in of_class.get(label, ()) if one_text(other) != one_text(text)]
        if answers:
            rows.append((text, answers, ()))
    if not rows:
        raise DataError("no text has another one of its class.", source)
    return make_ranking(name, rows, [text for texts in of_class.values() for text in texts])

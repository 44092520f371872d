"""Small generated language, on which the whole pipeline runs without a download.

A meaning has five slots: who, does what, to what, where, when. Each value of a slot has two synonymous
surface forms, and a sentence puts the slots in one of three orders. The similarity of two meanings is
specific to this language: place and time count most, the actor least. Even an encoder that was trained on
English therefore has something to learn.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np

from sts_lightning.core.errors import check_range
from sts_lightning.data.data_set import DataSet, Splits, column_views
from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.data.table import LABELLED, Table, sentence_columns

FORMS = {
    "actor": "the doctor / the physician, a farmer / a grower, the teacher / the schoolmaster, "
    "a sailor / a seaman, the boy / the lad, a thief / a burglar, the singer / the vocalist, "
    "a soldier / a trooper",
    "action": "repaired / fixed, bought / purchased, painted / coloured, hid / concealed, "
    "carried / lugged, cleaned / washed, broke / smashed, photographed / took a picture of",
    "object": "a bicycle / a bike, a couch / a sofa, an old clock / an ancient clock, "
    "a wooden boat / a boat made of wood, a small lamp / a little lamp, a glass jar / a jar of glass, "
    "a rug / a carpet, a radio / a wireless set",
    "place": "in the forest / in the woods, at the harbour / at the port, "
    "near the church / close to the church, in the cellar / in the basement, "
    "on the hill / on the hillside, at the market / at the bazaar, by the lake / on the shore of the lake, "
    "in the kitchen / in the cookroom",
    "time": "at dawn / at daybreak, in the evening / at nightfall, in winter / during the winter, "
    "on Sunday / this Sunday, at noon / at midday, last year / a year ago, "
    "after the storm / once the storm was over, before dinner / ahead of dinner",
}
"""Values of each slot, each with its two surface forms."""

SLOTS = {slot: [tuple(value.split(" / ")) for value in forms.split(", ")] for slot, forms in FORMS.items()}
"""Surface forms of each value of each slot."""

WEIGHTS = np.array([0.25, 0.5, 0.75, 1.5, 2.0])
"""Contribution of each shared slot to the score of a pair, in the order of `SLOTS`; they sum to 5."""

ORDERS = (
    "{actor} {action} {object} {place} {time}",
    "{time} {actor} {action} {object} {place}",
    "{place} , {actor} {action} {object} {time}",
)

_VALUES = 8


def toy(
    seed: int = 1,
    kind: Literal["pairs", "triplets", "classes", "sentences"] = "pairs",
    views: int = 2,
    repetition: float = 0.0,
    train_size: int = 2000,
    dev_size: int = 500,
    test_size: int = 1000,
) -> DataSet:
    """Generated training examples, with a dev and a test split of scored pairs.

    The corpus is always the same; each split is drawn with another fixed random seed. With 3 x 16^5
    possible sentences, duplicates are very rare.

    Args:
        seed: Random seed of the repetitions.
        kind: Type of training examples: ``pairs`` (scored); ``triplets`` (the positive is a paraphrase, the
            hard negative differs in place and time only); ``classes`` (pairs of class 0 if no slot is
            shared, 2 if all are, 1 otherwise); or ``sentences`` (every view is the same sentence).
        views: Number of views of a sentence, 1 to 3, with ``kind=sentences``.
        repetition: Highest fraction of sub-words repeated in the second view, with ``kind=sentences``.
        train_size: Number of training examples.
        dev_size: Number of dev pairs.
        test_size: Number of test pairs.

    Raises:
        ValueError: A size is out of range.
    """
    for name, size in (("train_size", train_size), ("dev_size", dev_size), ("test_size", test_size)):
        check_range(name, size, 2, 1_000_000)  # a third of the sentences of the language

    def read_with(generate: Callable[[int, np.random.Generator], Table]) -> Splits:
        return Splits(
            generate(train_size, np.random.default_rng(0)).read_from(f"toy {kind}"),
            scored_pairs(dev_size, np.random.default_rng(1)),
            [STSTask("toy", {"test": scored_pairs(test_size, np.random.default_rng(2))})],
        )

    if kind == "classes":
        return DataSet(partial(read_with, classed_pairs), label="class", num_classes=3)
    if kind == "triplets":
        return DataSet(partial(read_with, triplets), column_views(3), "none", kind)
    if kind == "sentences":
        from sts_lightning.data.sentences import repeated_views  # which imports all files of the real data

        return DataSet(partial(read_with, triplets), repeated_views(views, repetition, seed), "none", kind)
    return DataSet(partial(read_with, scored_pairs))


def realise(meaning: np.ndarray, rng: np.random.Generator) -> str:
    """Return a sentence with a meaning: a random surface form of each slot, in a random order."""
    forms = {slot: SLOTS[slot][value][rng.integers(2)] for slot, value in zip(SLOTS, meaning, strict=True)}
    words = ORDERS[rng.integers(len(ORDERS))].format(**forms)
    return f"{words[0].upper()}{words[1:]} ."


def similarity(first: np.ndarray, second: np.ndarray) -> float:
    """Return the score of two meanings in [0, 5]: the sum of `WEIGHTS` over the slots that they share."""
    return float(WEIGHTS[first == second].sum())


def scored_pairs(size: int, rng: np.random.Generator) -> Table:
    """Generate pairs that share a random number of slots, with their scores."""
    rows = []
    for _ in range(size):
        first = rng.integers(_VALUES, size=len(SLOTS))
        changed = rng.random(len(SLOTS)) < rng.random()
        second = np.where(changed, rng.integers(_VALUES, size=len(SLOTS)), first)
        rows.append((realise(first, rng), realise(second, rng), similarity(first, second)))
    return Table.of_rows(LABELLED, rows)


def classed_pairs(size: int, rng: np.random.Generator) -> Table:
    """Generate pairs of random classes: no shared slot (0), some (1) or all (2)."""
    rows = []
    for _ in range(size):
        label = int(rng.integers(3))
        first = rng.integers(_VALUES, size=len(SLOTS))
        other = (first + rng.integers(1, _VALUES, size=len(SLOTS))) % _VALUES
        shared = np.zeros(len(SLOTS), dtype=bool)
        shared[: {0: 0, 1: int(rng.integers(1, len(SLOTS))), 2: len(SLOTS)}[label]] = True
        second = np.where(rng.permutation(shared), first, other)
        rows.append((realise(first, rng), realise(second, rng), label))
    return Table.of_rows(LABELLED, rows)


def triplets(size: int, rng: np.random.Generator) -> Table:
    """Generate triplets of an anchor, a paraphrase, and a sentence with another place and time."""
    rows = []
    for _ in range(size):
        anchor = rng.integers(_VALUES, size=len(SLOTS))
        negative = anchor.copy()
        negative[3:] = (anchor[3:] + rng.integers(1, _VALUES, size=2)) % _VALUES
        rows.append(tuple(realise(meaning, rng) for meaning in (anchor, anchor, negative)))
    return Table.of_rows(sentence_columns(3), rows)

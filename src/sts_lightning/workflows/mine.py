"""Hard negatives of pairs: for each anchor the nearest sentences that are not among its positives."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from torch.nn.functional import normalize

from sts_lightning.core.errors import DataError, counted
from sts_lightning.data.readers.row_values import fold
from sts_lightning.data.table import SourceCount
from sts_lightning.evaluation.encoding import Encoder
from sts_lightning.evaluation.retrieval import BLOCK, first_places
from sts_lightning.evaluation.statistics import pair_cosines, require_finite

log = logging.getLogger(__name__)

COPIED = 50_000
"""Pairs whose vectors are copied at once."""


@dataclass(frozen=True)
class Rule:
    """Which negatives a pair gets, in the words of sentence-transformers' `mine_hard_negatives`.

    Candidates are ranked by their cosine with the anchor, equal ones in their order. That of a negative is at
    most p - |p| relative_margin, where p is the least of the anchor with a positive (TopK-PercPos of
    NV-Retriever, https://arxiv.org/abs/2407.15831, for p > 0). Unlike in that function, `range_min` skips
    candidates whether or not they are above this limit.

    Attributes:
        negatives: Number of negatives of a pair.
        range_min: Number of nearest candidates to skip.
        range_max: Number of nearest candidates that the negatives are taken from; None for all.
        relative_margin: Margin below the positives, relative to their cosine.
        max_score: Largest cosine of a negative, if any.
    """

    negatives: int
    range_min: int
    range_max: int | None
    relative_margin: float
    max_score: float | None


def mine(
    pairs: Sequence[tuple[str, str]],
    corpus: Sequence[str],
    encoder: Encoder,
    rule: Rule,
    by_role: bool = False,
) -> list[tuple[str, ...]]:
    """Return the pairs with their negatives, the nearest first, without those that have too few.

    Sentences that differ in case, white space or final ``.``, ``!`` and ``?`` alone are one sentence, with
    the vector of the first. Other signs tell sentences apart: C, C++ and C#. The candidates are the second
    sentences, then the corpus; an anchor's are without itself and all that it is paired with, in either
    order.

    Args:
        pairs: Anchors, each with a positive.
        corpus: Further candidates.
        encoder: Encoder of the sentences.
        rule: Which negatives to take.
        by_role: Whether ``encode`` takes prompts by role: anchors are queries, candidates documents.

    Raises:
        DataError: No pair has enough negatives.
    """
    rows: dict[str, int] = {}
    texts: list[str] = []

    def row_of(text: str) -> int:
        row = rows.setdefault(_folded(text), len(texts))
        if row == len(texts):
            texts.append(text)
        return row

    seconds = [row_of(second) for _, second in pairs]
    for text in corpus:
        row_of(text)
    candidates = len(texts)
    members = np.array([[row_of(first) for first, _ in pairs], seconds]).T
    queries, of_pair = np.unique(members[:, 0], return_inverse=True)
    sizes = (len(pairs), len(queries), len(texts), candidates)
    log.info("%s pairs of %s anchors; %s sentences, %s of them candidates", *(f"{size:,}" for size in sizes))
    encode: Callable[..., np.ndarray] = encoder.encode
    if by_role:  # a text that is both has two vectors
        asked = encode([texts[row] for row in queries], prompt="query")
        vectors = np.concatenate([encode(texts[:candidates], prompt="document"), asked])
        anchors = candidates + np.arange(len(queries))
    else:
        vectors, anchors = encode(texts), queries
    vectors = require_finite(np.asarray(vectors, dtype=np.float32))
    unit = torch.from_numpy(vectors)
    normalize(unit, dim=-1, out=unit)  # in place: a second copy may not fit into the memory
    parts = np.array_split(np.array([anchors[of_pair], members[:, 1]]).T, len(members) // COPIED + 1)
    positives = np.concatenate([pair_cosines(vectors[part[:, 0]], vectors[part[:, 1]]) for part in parts])
    limits = np.full(len(queries), np.inf)
    np.minimum.at(limits, of_pair, positives)
    limits -= np.abs(limits) * rule.relative_margin
    if rule.max_score is not None:
        limits = np.minimum(limits, rule.max_score)

    out = np.concatenate([members[:, columns] for columns in ([0, 1], [1, 0], [0, 0], [1, 1])])
    out = out[(out[:, 1] < candidates) & np.isin(out[:, 0], queries)]
    out[:, 0] = np.searchsorted(queries, out[:, 0])
    found, cosines, ranks = nearest(vectors, candidates, anchors, out, limits, rule.negatives, rule.range_min)
    few = found[:, -1] < 0
    far = ~few & (ranks + rule.negatives > (rule.range_max or candidates))
    count = SourceCount("pairs", len(pairs))
    count.dropped["too few candidates within --relative-margin and --max-score"] = int(few[of_pair].sum())
    count.dropped["negatives only beyond --range-max"] = int(far[of_pair].sum())
    kept = np.flatnonzero(~(few | far)[of_pair])
    count.report()
    if not len(kept):
        hint = "Give a smaller --relative-margin or --range-min, a larger --range-max, or a --corpus."
        raise DataError(f"no pair has {counted(rule.negatives, 'negative')}.", hint=hint)
    of_kept = of_pair[kept]
    medians = [np.median(values) for values in (positives[kept], cosines[of_kept], ranks[of_kept] + 1)]
    log.info("medians: cosine of the positives %.3f, of the negatives %.3f, rank of the first %d", *medians)
    return [(*pairs[pair], *(texts[row] for row in found[of_pair[pair]])) for pair in kept.tolist()]


def _folded(text: str) -> str:
    """Return what sentences have in common that count as one."""
    folded = fold(unicodedata.normalize("NFC", text).lower())  # NFKC would make 5² and 52 one
    return folded.rstrip(".!? ") or folded


def nearest(
    vectors: np.ndarray,
    candidates: int,
    queries: np.ndarray,
    excluded: np.ndarray,
    limits: np.ndarray,
    count: int,
    skip: int = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the nearest candidates of each query whose product with it is at most a limit.

    The search is exact: all products are computed, in float32. Those above the limit are the first of the
    ranking, so that it is enough to count them, and to keep the best ``skip + count`` of the others.

    Args:
        vectors: (N, D) in float32; the first C are the candidates.
        candidates: C.
        queries: Rows of the queries, (Q,).
        excluded: Queries, from 0 to Q - 1, and candidates that are no neighbours of theirs, (E, 2).
        limits: Largest product of a neighbour with each query, (Q,).
        count: Number K of neighbours.
        skip: Number of nearest candidates that are left out, above the limit or not.

    Returns:
        Neighbours, the nearest first and equal ones in their order, or -1 where there are no more, (Q, K);
        their products, (Q, K); the number of candidates that are nearer, excluded ones not counted, (Q,).
    """
    table, limits = torch.from_numpy(vectors), limits.astype(np.float32)
    excluded = excluded[np.argsort(excluded[:, 0], kind="stable")]
    found = np.full((len(queries), count), -1)
    products = np.zeros(found.shape, dtype=np.float32)
    ranks = np.empty(len(queries), dtype=np.int64)
    step = max(1, BLOCK // candidates)
    blocks = range(0, len(queries), step)
    for start in track(blocks, "Searching", disable=not Console().is_terminal, transient=True):
        block = (table[queries[start : start + step]] @ table[:candidates].T).numpy()
        out = excluded[slice(*np.searchsorted(excluded[:, 0], [start, start + step]))]
        block[out[:, 0] - start, out[:, 1]] = -np.inf
        for query, similar in enumerate(block, start):
            over = similar > limits[query]
            above = int(np.count_nonzero(over))
            similar[over] = -np.inf
            near = first_places(similar, skip + count)[max(skip - above, 0) :][:count]
            near = near[similar[near] > -np.inf]
            found[query, : len(near)], products[query, : len(near)] = near, similar[near]
            ranks[query] = max(above, skip)
    return found, products, ranks

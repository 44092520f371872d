"""Rankings scored: accuracy@1, recall@10, MRR@10, nDCG@10 and triplet accuracy of each query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sts_lightning.core.console import print_scores
from sts_lightning.data.ranking import Ranking
from sts_lightning.evaluation.statistics import require_finite, unit_rows
from sts_lightning.runs.predictions import Values

CUT = 10
"""Number of ranks that are read."""

BLOCK = 2**24
"""Cosines that are held at a time."""

TITLES = {
    "accuracy@1": "accuracy@1",
    "recall@10": "recall@10",
    "mrr@10": "MRR@10",
    "ndcg@10": "nDCG@10",
    "triplets": "triplets",
}
"""Names of the scores in tables and messages."""


def encode_ranking(encode: Callable[..., np.ndarray], ranking: Ranking) -> Values:
    """Encode and score a ranking.

    Args:
        encode: ``encode`` of an encoder, whose ``prompt`` is the role of texts, ``query`` or ``document``.
        ranking: What is ranked.

    Raises:
        TrainingError: A vector is NaN or infinite.
    """
    queries, candidates = (require_finite(encode(texts, prompt=role)) for role, texts in ranking.texts())
    return score_queries(ranking, queries, candidates)


def score_queries(ranking: Ranking, queries: np.ndarray, candidates: np.ndarray) -> Values:
    """Score each query by the cosines of its candidates; of equal ones the first in the data is first.

    The definitions are those of sentence-transformers' ``InformationRetrievalEvaluator``: a candidate is
    right or not. Accuracy@1 and MRR@10 read the first right one, recall@10 divides by the number of all right
    ones, and the ideal of nDCG@10 has as many of these first as there are, at most 10. ``triplets`` is the
    share of the query's triplets whose right candidate has the higher cosine.

    Args:
        ranking: What is ranked.
        queries: Vectors (Q, D).
        candidates: Vectors (C, D).
    """
    queries, candidates = (unit_rows(each.astype(np.float32)) for each in (queries, candidates))
    hits = np.zeros((len(queries), CUT), dtype=bool)
    step = max(1, BLOCK // len(candidates))
    for start in range(0, len(queries), step):
        cosines = queries[start : start + step] @ candidates.T
        for row, scores in enumerate(cosines, start=start):
            scores[ranking.left_out[row]] = -np.inf
            found = np.isin(first_places(scores, CUT), ranking.relevant[row])
            hits[row, : len(found)] = found
    right = np.array([len(places) for places in ranking.relevant])
    gains = 1 / np.log2(np.arange(2, CUT + 2))
    ideal = np.cumsum(gains)[np.minimum(right, CUT) - 1]
    return {
        "accuracy@1": hits[:, 0].astype(np.float64),
        "recall@10": hits.sum(axis=1) / right,
        "mrr@10": np.where(hits.any(axis=1), 1 / (hits.argmax(axis=1) + 1), 0.0),
        "ndcg@10": hits @ gains / ideal,
        **_triplets(ranking, queries, candidates),
    }


def first_places(scores: np.ndarray, count: int) -> np.ndarray:
    """Return the places of the highest scores in order; of equal ones the first is first."""
    if len(scores) > count:
        threshold = np.partition(scores, -count)[-count]
        places = np.flatnonzero(scores >= threshold)
    else:
        places = np.arange(len(scores))
    return places[np.argsort(-scores[places], kind="stable")][:count]


def _triplets(ranking: Ranking, queries: np.ndarray, candidates: np.ndarray) -> Values:
    if not len(ranking.triplets):
        return {}
    of, right, wrong = ranking.triplets.T
    correct = np.zeros(len(of), dtype=bool)
    for start in range(0, len(of), 2**14):
        part = slice(start, start + 2**14)
        gap = candidates[right[part]] - candidates[wrong[part]]
        correct[part] = np.einsum("nd,nd->n", queries[of[part]], gap) > 0
    sums, counts = (np.bincount(of, values, len(queries)) for values in (correct, None))
    return {"triplets": np.divide(sums, counts, out=np.full(len(queries), np.nan), where=counts > 0)}


def mean_scores(values: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return the mean of each score times 100 over the queries that have it."""
    return {name: 100 * float(np.nanmean(each)) for name, each in values.items()}


def ranking_cells(entry: Mapping[str, Any]) -> list[str]:
    """Return the cells of a stored ranking in a table, by `TITLES` and then its sizes."""
    scores = [f"{entry[key]:.2f}" if key in entry else "-" for key in TITLES]
    return scores + [f"{entry[key]:,}" if key in entry else "-" for key in ("queries", "candidates")]


def print_rankings(rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the scores of rankings, each entry as stored."""
    sizes = [entry for entry in rows.values() if "candidates" in entry]
    of = ", ".join(dict.fromkeys(f"{each['queries']:,} of {each['candidates']:,}" for each in sizes))
    named = {
        name: {title: entry[key] for key, title in TITLES.items() if key in entry}
        for name, entry in rows.items()
    }
    print_scores(f"Ranking x 100 (queries of candidates: {of})", named)

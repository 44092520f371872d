"""Scores of truncated and quantized vectors: their first values, in fewer bits, as in a search index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sts_lightning.core.choices import Aggregate, StoredAs
from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.evaluation.encoding import Embedded
from sts_lightning.evaluation.sts import score_tasks, spearman_row, table_cosines


def score_quantized(
    embedded: Embedded,
    tasks: Sequence[STSTask],
    aggregate: Aggregate,
    dims: Sequence[int],
    types: Sequence[StoredAs],
) -> dict[str, dict[str, Any]]:
    """Score each combination of a number of first values and a type of vectors that are encoded once.

    Args:
        embedded: Vectors of all sentences of the tasks.
        tasks: At least one.
        aggregate: How the subsets of a task become one score.
        dims: Numbers of values besides D, each from 1 to D.
        types: Types of the values.

    Returns:
        By, for example, ``256 int8`` the ``bytes`` of a vector and its ``scores``: Spearman's correlation of
        each task and, of several, their average. Those of the whole vectors in float32 are the first; nothing
        if there would be no others.
    """
    whole = embedded.vectors.shape[1]
    chosen = dict.fromkeys([(whole, "float32"), *((dim, name) for dim in (whole, *dims) for name in types)])
    if len(chosen) == 1:
        return {}
    tables = [table for task in tasks for table in task.subsets.values()]
    found: dict[str, dict[str, Any]] = {}
    for dim, name in chosen:
        bits, store = STORED[name]
        stored = Embedded(store(embedded.vectors[:, :dim]), embedded.index)
        result = score_tasks(tasks, table_cosines(stored, tables), aggregate)
        found[f"{dim} {name}"] = {"bytes": -(-dim * bits // 8), "scores": spearman_row(result)}
    return found


def as_int8(vectors: np.ndarray) -> np.ndarray:
    """Round each vector, scaled to a largest magnitude of 127: (N, D) in int8.

    The scale is that of the vector alone: a cosine needs none, so none is stored, and there is nothing to
    calibrate on. `usearch
    <https://github.com/unum-cloud/usearch/blob/fd6279af6bc205baab1e0ad48651cc0f875cdb7d/include/usearch/index_plugins.hpp#L1172-L1191>`_
    scales by the vector's length instead and uses fewer of the 256 values. ``quantize_embeddings`` of
    sentence-transformers shifts and scales each dimension by its range over calibration vectors. Cosines of
    its int8 numbers are therefore those of other vectors, centred and rescaled, and not a measure of what
    rounding costs; those of the values that they stand for are close to the ones here.
    """
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    return np.rint(vectors * (127 / np.where(largest > 0, largest, 1))).astype(np.int8)


def as_signs(vectors: np.ndarray) -> np.ndarray:
    """Return 1 for each positive value and -1 for others, int8 of shape (N, D).

    It stands for D bits, those of sentence-transformers' ``binary``: at a Hamming distance of h the cosine is
    1 - 2 h / D.
    """
    return np.where(vectors > 0, np.int8(1), np.int8(-1))


STORED: dict[str, tuple[int, Callable[[np.ndarray], np.ndarray]]] = {
    "float32": (32, lambda vectors: vectors),
    "int8": (8, as_int8),
    "binary": (1, as_signs),
}
"""Bits of a value, and the function from vectors to those whose cosines are compared, by type."""

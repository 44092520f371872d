"""Tasks of the Massive Text Embedding Benchmark through the package ``mteb``."""

from __future__ import annotations

import contextlib
import copy
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from sts_lightning.core.errors import ConfigError, DataError
from sts_lightning.evaluation.encoding import Encoder, encode_distinct
from sts_lightning.evaluation.statistics import pair_cosines


class MTEBScore(TypedDict):
    """The main score of a task times 100, the name of that metric, and what was scored.

    ``splits`` has the score of each subset of each split; ``score`` is MTEB's, the mean over all of these.
    """

    score: float
    metric: str
    splits: dict[str, dict[str, float]]


class MTEBResult(TypedDict):
    """Main scores by task; ``average`` is their plain mean, ``types`` has the means by type of task."""

    average: float
    types: dict[str, float]
    tasks: dict[str, MTEBScore]


class MTEBEncoder:
    """An encoder as MTEB calls one; its template, pooling and precision are those of the encoder.

    MTEB's own prompts are not used: a sentence is read as in training and on the STS tasks.

    Args:
        encoder: Encoder to evaluate.
    """

    def __init__(self, encoder: Encoder) -> None:
        from mteb.models import ModelMeta

        self.encoder = encoder
        self.mteb_model_meta = ModelMeta.create_empty({"name": "sts-lightning/model", "revision": "none"})

    def encode(self, inputs: Any, **_: Any) -> np.ndarray:
        """Vectors (N, D) in float32 of the texts in MTEB's batches."""
        texts = [text for batch in inputs for text in batch["text"]]
        return encode_distinct(self.encoder, texts)[texts].astype(np.float32, copy=False)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> np.ndarray:
        """Cosines of all pairs, (N, D), (M, D) -> (N, M)."""
        first, second = (_unit(vectors) for vectors in (embeddings1, embeddings2))
        cosines: np.ndarray = first @ second.T
        return cosines

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> np.ndarray:
        """Cosines of the pairs of rows, (N, D), (N, D) -> (N,)."""
        return pair_cosines(np.asarray(embeddings1), np.asarray(embeddings2))


def _unit(vectors: Any) -> np.ndarray:
    rows = np.atleast_2d(np.asarray(vectors, dtype=np.float64))
    unit: np.ndarray = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return unit


def find_mteb_tasks(names: Sequence[str]) -> list[Any]:
    """MTEB's tasks of these names, each once; of a task in several languages the English subsets.

    Args:
        names: Names of tasks, or of benchmarks such as ``MTEB(eng, v2)``, which mean all their tasks with the
            subsets and splits of the benchmark, or of a type of their tasks, ``MTEB(eng, v2)/STS``.

    Raises:
        ConfigError: The package ``mteb`` is not installed, or there is no such task or type.
    """
    try:
        import mteb
    except ImportError as error:
        raise ConfigError(
            "suite=mteb needs the package mteb: pip install 'sts-lightning[mteb]'.", key="suite"
        ) from error
    benchmarks = {benchmark.name: benchmark.tasks for benchmark in mteb.get_benchmarks()}
    tasks: dict[str, Any] = {}
    for name in names:
        benchmark, _, kind = name.rpartition("/") if "/" in name else (name, "", "")
        if benchmark not in benchmarks:
            tasks.setdefault(name, _task(mteb, name))
            continue
        of = benchmarks[benchmark]
        members = [copy.deepcopy(task) for task in of if kind in ("", task.metadata.type)]
        if not members:
            types = ", ".join(sorted({task.metadata.type for task in of}))
            raise ConfigError(f"tasks: {benchmark} has no tasks of the type {kind}, but {types}.", "tasks")
        for task in members:
            tasks.setdefault(task.metadata.name, task)
    return list(tasks.values())


def _task(mteb: Any, name: str) -> Any:
    try:
        task = mteb.get_task(name)
    except KeyError as error:
        raise ConfigError(
            f"MTEB: {' '.join(str(error.args[0]).split())}",
            key="tasks",
            hint="Benchmarks are named too, such as 'MTEB(eng, v2)', or 'MTEB(eng, v2)/STS' for a type of "
            "their tasks.",
        ) from error
    with contextlib.suppress(ValueError):  # no subset is in English alone: all are scored
        task.filter_languages(["eng"], exclusive_language_filter=True)
    return task


def evaluate_mteb(encoder: Encoder, tasks: Sequence[Any], folder: Path) -> MTEBResult:
    """Score tasks as MTEB does, and keep its result files, one a task.

    Args:
        encoder: Encoder to evaluate.
        tasks: Tasks from `find_mteb_tasks`.
        folder: Folder of the result files.

    Raises:
        DataError: A task's data could not be loaded.
    """
    import mteb

    model: Any = MTEBEncoder(encoder)
    results: dict[str, MTEBScore] = {}
    for task in tasks:
        name = task.metadata.name
        if not task.data_loaded:
            try:
                task.load_data()
            except (OSError, ValueError, RuntimeError) as error:  # what datasets and the hub client raise
                reason = f"{type(error).__name__}: {str(error).splitlines()[0]}"
                raise DataError(
                    f"MTEB's {name} could not be loaded ({reason}). It is read from the model hub, or "
                    "from the hub's cache on this machine."
                ) from error
        (result,) = mteb.evaluate(model, task, cache=None, show_progress_bar=False).task_results
        folder.mkdir(parents=True, exist_ok=True)
        result.to_disk(folder / f"{name}.json")
        results[name] = {
            "score": 100 * float(result.get_score()),
            "metric": task.metadata.main_score,
            "splits": {
                split: {row["hf_subset"]: 100 * float(row["main_score"]) for row in rows}
                for split, rows in result.scores.items()
            },
        }
    average = float(np.mean([result["score"] for result in results.values()]))
    by_type: dict[str, list[float]] = defaultdict(list)
    for task in tasks:
        by_type[task.metadata.type].append(results[task.metadata.name]["score"])
    types = {kind: float(np.mean(scores)) for kind, scores in by_type.items()}
    return {"average": average, "types": types, "tasks": results}

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
from sts_lightning.evaluation.statistics import pair_cosines, unit_rows


class MTEBScore(TypedDict):
    """The main score of a task times 100 and the name of its metric.

    ``splits`` has the score of each subset of each split; ``score`` is the mean over these, as in MTEB.
    """

    score: float
    metric: str
    splits: dict[str, dict[str, float]]


class MTEBResult(TypedDict):
    """Main scores by task, their plain mean, and the means by type of task."""

    average: float
    types: dict[str, float]
    tasks: dict[str, MTEBScore]


def find_mteb_tasks(names: Sequence[str]) -> list[Any]:
    """Return MTEB's tasks of these names, each once; of a multilingual task the English subsets.

    Args:
        names: Names of tasks, of benchmarks such as ``MTEB(eng, v2)``, or of the tasks of a type in a
            benchmark, ``MTEB(eng, v2)/STS``. A benchmark determines the subsets and splits of its tasks.

    Raises:
        ConfigError: The package ``mteb`` is not installed, or there is no such task or type.
    """
    try:
        import mteb
    except ImportError as error:
        missing = "suite=mteb needs the package mteb: pip install 'sts-lightning[mteb]'."
        raise ConfigError(missing, key="suite") from error
    benchmarks = {benchmark.name: benchmark.tasks for benchmark in mteb.get_benchmarks()}
    tasks: dict[str, Any] = {}
    for name in names:
        benchmark, _, type_ = name.rpartition("/") if "/" in name else (name, "", "")
        if benchmark not in benchmarks:
            tasks.setdefault(name, _task(mteb, name))
            continue
        members = [task for task in benchmarks[benchmark] if type_ in ("", task.metadata.type)]
        if not members:
            types = ", ".join(sorted({task.metadata.type for task in benchmarks[benchmark]}))
            raise ConfigError(f"tasks: {benchmark} has no tasks of the type {type_}, but {types}.", "tasks")
        for task in members:  # copied, since loading data changes a task, and the benchmark keeps its tasks
            tasks.setdefault(task.metadata.name, copy.deepcopy(task))
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
    """Score tasks as MTEB does, and write its result files, one for each task.

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
        # Without MTEB's cache, which would return an earlier result: all encoders have the same name there.
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
    types = {type_: float(np.mean(scores)) for type_, scores in by_type.items()}
    return {"average": average, "types": types, "tasks": results}


class MTEBEncoder:
    """An encoder with MTEB's interface.

    MTEB's prompts are not used: a sentence is read as in training and on the STS tasks.
    """

    def __init__(self, encoder: Encoder) -> None:
        from mteb.models import ModelMeta

        self.encoder = encoder
        self.mteb_model_meta = ModelMeta.create_empty({"name": "sts-lightning/model", "revision": "none"})

    def encode(self, inputs: Any, **_: Any) -> np.ndarray:
        """Vectors (N, D) in float32 of the texts in MTEB's batches."""
        texts = [text for batch in inputs for text in batch["text"]]
        found = encode_distinct(self.encoder, texts)
        vectors = found.vectors if len(found.index) == len(texts) else found[texts]
        return vectors.astype(np.float32, copy=False)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> np.ndarray:
        """Cosines of all pairs, (N, D), (M, D) -> (N, M)."""
        both = (np.atleast_2d(np.asarray(each, dtype=np.float64)) for each in (embeddings1, embeddings2))
        first, second = map(unit_rows, both)
        cosines: np.ndarray = first @ second.T
        return cosines

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> np.ndarray:
        """Cosines of the pairs of rows, (N, D), (N, D) -> (N,)."""
        return pair_cosines(np.asarray(embeddings1), np.asarray(embeddings2))

"""Tasks of the Massive Text Embedding Benchmark through the package ``mteb``."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from sts_lightning.errors import ConfigError, DataError
from sts_lightning.evaluation.correlation import pair_cosines
from sts_lightning.evaluation.encoding import Encoder, encode_distinct


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
        name: Name in MTEB's result files, ``organisation/model``.
    """

    def __init__(self, encoder: Encoder, name: str = "sts-lightning/model") -> None:
        from mteb.models import ModelMeta

        self.encoder = encoder
        self.mteb_model_meta = ModelMeta.create_empty({"name": name, "revision": "none"})

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


def find_mteb_tasks(
    names: Sequence[str],
    languages: Sequence[str] | None = None,
    subsets: Sequence[str] | None = None,
    splits: Sequence[str] | None = None,
) -> list[Any]:
    """MTEB's tasks of these names, each with the subsets and splits that will be scored.

    Args:
        names: Names of tasks such as STS17, of benchmarks such as ``MTEB(eng, v2)``, whose tasks have the
            subsets and splits of the benchmark, or of a type of their tasks, ``MTEB(eng, v2)/STS``.
        languages: Codes such as eng or eng-Latn; a subset is scored if all its languages are among them, so
            that English alone leaves out cross-lingual pairs. English if neither these nor subsets are given.
        subsets: Names of subsets such as en-en, for those of the tasks that have them.
        splits: Names of splits such as test; those that MTEB evaluates if not given.

    Raises:
        ConfigError: The package is not installed; there is no such task, subset or split; nothing of a task
            is left; or both languages and subsets are given.
    """
    try:
        import mteb
    except ImportError as error:
        raise ConfigError(
            "suite=mteb needs the package mteb: pip install 'sts-lightning[mteb]'.", key="suite"
        ) from error
    if languages is not None and subsets is not None:
        raise ConfigError(
            "languages and subsets both choose subsets of a task; give one of them.", key="languages"
        )
    benchmarks = {benchmark.name: benchmark for benchmark in mteb.get_benchmarks()}
    tasks: dict[str, Any] = {}
    for name in names:
        benchmark, _, kind = name.rpartition("/") if "/" in name else (name, "", "")
        if benchmark in benchmarks:
            of = benchmarks[benchmark].tasks
            members = [copy.deepcopy(task) for task in of if kind in ("", task.metadata.type)]
            if not members:
                types = ", ".join(sorted({task.metadata.type for task in of}))
                raise ConfigError(
                    f"tasks: {benchmark} has no tasks of the type {kind}, but {types}.", "tasks"
                )
        else:
            members = [_task(mteb, name)]
        usual = None if benchmark in benchmarks or subsets is not None else ["eng"]
        for task in members:
            _choose(task, languages or usual, subsets, splits)
            tasks.setdefault(task.metadata.name, task)
    for key, wanted, found in (
        ("subsets", subsets, {subset for task in tasks.values() for subset in task.hf_subsets}),
        ("splits", splits, {split for task in tasks.values() for split in task.eval_splits}),
    ):
        unused = [name for name in wanted or () if name not in found]
        if unused:
            raise ConfigError(f"{key}: no task of {', '.join(names)} has {', '.join(unused)}.", key=key)
    return list(tasks.values())


def _task(mteb: Any, name: str) -> Any:
    try:
        return mteb.get_task(name)
    except KeyError as error:
        raise ConfigError(
            f"MTEB: {' '.join(str(error.args[0]).split())}",
            key="tasks",
            hint="Benchmarks are named too, such as 'MTEB(eng, v2)', or 'MTEB(eng, v2)/STS' for a type of "
            "their tasks.",
        ) from error


def _choose(
    task: Any,
    languages: Sequence[str] | None,
    subsets: Sequence[str] | None,
    splits: Sequence[str] | None,
) -> None:
    """Restrict a task to subsets and splits; None: as they are."""
    name, known = task.metadata.name, task.metadata.hf_subsets_to_langscripts
    key, chosen = ("languages", languages) if subsets is None else ("subsets", subsets)
    try:
        if chosen is not None:
            task.filter_languages(languages, hf_subsets=subsets, exclusive_language_filter=subsets is None)
    except ValueError as error:  # an unknown code, or nothing is left
        have = "; ".join(f"{subset} ({', '.join(codes)})" for subset, codes in list(known.items())[:20])
        raise ConfigError(
            f"{key}={list(chosen or ())} leaves nothing of MTEB's {name}, which has {have}. "
            "Choose with subsets=[...] or languages=[...].",
            key=key,
        ) from error
    if splits is not None:  # MTEB would look for one that is not there
        there = task.metadata.eval_splits
        kept = [split for split in splits if split in there]
        if not kept:
            raise ConfigError(
                f"splits={list(splits)} leaves nothing of MTEB's {name}, which has {', '.join(there)}.",
                key="splits",
            )
        task.filter_eval_splits(kept)


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

"""Tasks of the Massive Text Embedding Benchmark through the package ``mteb``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from sts_lightning.errors import ConfigError, DataError
from sts_lightning.evaluation.correlation import pair_cosines
from sts_lightning.evaluation.sts import Encoder


class MTEBScore(TypedDict):
    """The main score of a task times 100, and the name of that metric."""

    score: float
    metric: str


class MTEBResult(TypedDict):
    """Main scores by task; ``average`` is their plain mean."""

    average: float
    tasks: dict[str, MTEBScore]


class MTEBEncoder:
    """An encoder as MTEB calls one; its template, pooling and precision are those of the encoder.

    MTEB's own prompts are not used: a sentence is read as in training and on the STS tasks.

    Args:
        encoder: What is evaluated.
        name: How it is called in MTEB's result files, ``organisation/model``.
    """

    def __init__(self, encoder: Encoder, name: str = "sts-lightning/model") -> None:
        from mteb.models import ModelMeta

        self.encoder = encoder
        self.mteb_model_meta = ModelMeta.create_empty({"name": name, "revision": "none"})

    def encode(self, inputs: Any, **_: Any) -> np.ndarray:
        """Vectors (N, D) in float32 of the texts in MTEB's batches."""
        texts = [text for batch in inputs for text in batch["text"]]
        distinct = list(dict.fromkeys(texts))
        index = {text: row for row, text in enumerate(distinct)}
        vectors = np.asarray(self.encoder.encode(distinct), dtype=np.float32)
        return vectors[[index[text] for text in texts]]

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
    """MTEB's tasks of these names, English where a task has several languages.

    Raises:
        ConfigError: The package is not installed, or has no such task.
    """
    try:
        import mteb
    except ImportError as error:
        raise ConfigError("suite=mteb needs the package mteb: pip install 'sts-lightning[mteb]'.") from error
    try:
        return list(mteb.get_tasks(tasks=list(names), languages=["eng"]))
    except KeyError as error:
        raise ConfigError(f"MTEB: {' '.join(str(error.args[0]).split())}") from error


def evaluate_mteb(encoder: Encoder, tasks: Sequence[Any], folder: Path) -> MTEBResult:
    """Score tasks as MTEB does, and keep its result files, one a task.

    Args:
        encoder: What is evaluated.
        tasks: From `find_mteb_tasks`.
        folder: Where the result files go.

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
        results[name] = {"score": 100 * float(result.get_score()), "metric": task.metadata.main_score}
    average = float(np.mean([result["score"] for result in results.values()]))
    return {"average": average, "tasks": results}

"""Time the seven-task STS evaluation against sentence-transformers: `make bench-encode`.

The peer encodes each task's two columns, batch 32, as its own evaluators do; ours encodes each distinct
sentence once. Same model, same machine, one run, in turns. Scores and float32 vectors are compared too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time

import numpy as np
import torch
from common import our_minilm, their_minilm
from datasets import Dataset

from sts_lightning.core.choices import Precision
from sts_lightning.data.readers.sts_sets import load_sts_tasks
from sts_lightning.evaluation.statistics import pair_cosines
from sts_lightning.evaluation.sts import TestResult, evaluate_sts, score_tasks
from sts_lightning.models.loading.backbone import DTYPES


class Columns:
    """sentence-transformers: no de-duplication, each column of each task encoded separately."""

    def __init__(self, precision: Precision) -> None:
        self.model = their_minilm().to(DTYPES[precision])

    def encode(self, sentences: list[str], /) -> np.ndarray:
        """Return the vectors in float32."""
        tensor = self.model.encode(sentences, batch_size=32, convert_to_tensor=True, show_progress_bar=False)
        vectors: np.ndarray = tensor.float().numpy()
        return vectors


def main() -> None:
    """Run and print; exit with status 1 if vectors or scores differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--ours-only", action="store_true")
    options = parser.parse_args()
    tasks = load_sts_tasks(os.environ["STS_DATA_ROOT"])
    precisions: tuple[Precision, ...] = ("32-true", "bf16-true")
    encoders = {p: our_minilm().set_precision(p).eval() for p in precisions}
    peers = {p: Columns(p) for p in precisions}
    sample = [text for task in tasks for table in task.subsets.values() for text in table["sentence1"][:40]]
    times: dict[str, list[float]] = {}
    results: dict[str, TestResult] = {}
    for precision in precisions:  # warm-up
        peers[precision].encode(sample[:64])
        encoders[precision].encode(sample[:64])
    for _ in range(options.turns):
        for precision in precisions:
            start = time.perf_counter()
            results[f"ours {precision}"] = evaluate_sts(encoders[precision], tasks)
            times.setdefault(f"ours {precision}", []).append(time.perf_counter() - start)
            if options.ours_only:
                continue
            start = time.perf_counter()
            cosines = []
            for task in tasks:
                cosines += _task_cosines(peers[precision], list(task.subsets.values()))
            results[f"theirs {precision}"] = score_tasks(tasks, cosines, "all")
            times.setdefault(f"theirs {precision}", []).append(time.perf_counter() - start)
    seconds = {name: statistics.median(values) for name, values in times.items()}
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    for name, result in results.items():
        scores = " ".join(f"{task['spearman']:.2f}" for task in result["tasks"].values())
        print(f"{name:18} {seconds[name]:6.1f} s   {scores}   average {result['average']:.3f}")
    if options.ours_only:
        return
    for fast, slow, goal in (
        ("ours 32-true", "theirs 32-true", 2.0),
        ("ours bf16-true", "theirs bf16-true", 2.0),
        ("ours bf16-true", "theirs 32-true", 5.0),
    ):
        print(f"{slow} / {fast}: {seconds[slow] / seconds[fast]:.2f} (goal: {goal:g})")
    ours, theirs = (system["32-true"].encode(sample) for system in (encoders, peers))
    difference = np.abs(_unit(ours) - theirs).max()
    print(f"float32 vectors: largest difference {difference:.1e} over {len(sample)} sentences")
    table = np.array([[task["spearman"] for task in result["tasks"].values()] for result in results.values()])
    spread = float(np.ptp(table, axis=0).max())
    print(f"scores: largest difference {spread:.3f}")
    sys.exit(int(difference > 1e-4 or spread > 0.03))


def _task_cosines(peer: Columns, tables: list[Dataset]) -> list[np.ndarray]:
    """Return the cosines of a task's subsets, each column encoded in one call as the peer's evaluators do."""
    first, second = (
        peer.encode([text for table in tables for text in table[column]])
        for column in ("sentence1", "sentence2")
    )
    ends = np.cumsum([len(table) for table in tables])[:-1]
    return list(np.split(pair_cosines(first, second), ends))


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Scale vectors to unit length, as the peer's last module does."""
    scaled: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled


if __name__ == "__main__":
    main()

"""Time STS16 and STS-B in float32, bfloat16 and 8-bit integers: `make bench-int8 [PEER=PYTHON]`.

With the Python of an environment that has `sentence-transformers[onnx,openvino]` (they need transformers 4,
so that it cannot be this one), its float32 default and its 8-bit backends are timed in between. Each process
runs alone, each system encodes twice, and the faster one counts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from common import CONFIG, our_minilm

from sts_lightning.choices import InferencePrecision
from sts_lightning.data.readers.senteval import load_sts_tasks
from sts_lightning.evaluation.correlation import pair_cosines
from sts_lightning.evaluation.sts import TaskResult, evaluate_sts, score_tasks
from sts_lightning.models.int8 import multiplies_int8
from sts_lightning.models.offline import packaged_copy

TASKS = ("STS16", "STSB")


def main() -> None:
    """Run and print; exit with status 1 if a score in 8 bits is off by more than 0.1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", help="Python with sentence-transformers[onnx,openvino]")
    options = parser.parse_args()
    tasks = [task for task in load_sts_tasks(os.environ["STS_DATA_ROOT"]) if task.name in TASKS]
    tables = [table for task in tasks for table in task.subsets.values()]
    columns = [[text for table in tables for text in table[name]] for name in ("sentence1", "sentence2")]
    ends = np.cumsum([len(table) for table in tables])[:-1]
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {len(columns[0])} pairs")
    scores: dict[str, list[float]] = {}
    precisions: tuple[InferencePrecision, ...] = ("32-true", "bf16-true", "int8")
    for precision in precisions[: None if multiplies_int8() else 2]:
        encoder = our_minilm().set_precision(precision).eval()
        seconds = []
        for _ in range(2):
            start = time.perf_counter()
            result = evaluate_sts(encoder, tasks)
            seconds.append(time.perf_counter() - start)
        _print(f"ours {precision}", min(seconds), scores, result["tasks"])
    if options.peer is not None:
        hub_id, _, revision = CONFIG.model.name.partition("@")
        with tempfile.TemporaryDirectory() as folder:
            np.save(Path(folder) / "sentences.npy", np.array(columns))
            for kind in ("torch", "onnx-qint8", "openvino-qint8"):
                source = str(packaged_copy(hub_id, revision) or hub_id)
                command = [options.peer, str(Path(__file__).with_name("int8_peer.py")), kind, source, folder]
                ran = subprocess.run(
                    [*command, str(torch.get_num_threads())], stdout=subprocess.PIPE, text=True, check=True
                )
                vectors = np.load(Path(folder) / f"{kind}.npy")
                cosines = np.split(pair_cosines(*vectors), ends)
                elapsed = float(ran.stdout.split()[-1])
                _print(f"theirs {kind}", elapsed, scores, score_tasks(tasks, cosines, "all")["tasks"])
    if "ours int8" in scores:
        change = np.abs(np.subtract(scores["ours int8"], scores["ours 32-true"])).max()
        sys.exit(int(change > 0.1))


def _print(name: str, seconds: float, scores: dict[str, list[float]], tasks: dict[str, TaskResult]) -> None:
    """Print and keep the scores of a system."""
    scores[name] = [task["spearman"] for task in tasks.values()]
    print(f"{name:22} {seconds:6.2f} s   {' '.join(f'{score:.3f}' for score in scores[name])}", flush=True)


if __name__ == "__main__":
    main()

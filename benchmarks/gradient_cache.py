"""Measure memory and time of one InfoNCE step with and without micro batches: `make bench-gradient-cache`.

A batch of 256 NLI triplets through a tiny Mistral with LoRA, each variant in its own process. The
memory of a step is the growth of the resident set.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import torch
from decoders import make_encoder, triplets

from sts_lightning.losses.contrastive import InfoNCELoss

GOAL_MEMORY, GOAL_TIME = 1 / 3, 1.5


def resident() -> int:
    """Return the resident set size of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


class Peak(threading.Thread):
    """Thread that records the peak of the resident set."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.start_bytes = self.highest = resident()
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.002):
            self.highest = max(self.highest, resident())


def step(batch: int, micro: int | None) -> dict[str, float]:
    """Measure one forward and backward pass."""
    encoder = make_encoder("tiny", torch.float32, "cpu", nf4=False).train()
    prepare = encoder.prepare(10**9, training=True)
    texts = triplets(batch)

    def run(views: list[list[str]]) -> None:
        rows = prepare(views, [None] * 3)
        if micro is not None:
            rows = rows.limited(3 * micro)
        embedded = encoder(rows, None if micro is None else 0).unflatten(0, (3, -1))
        InfoNCELoss()(embedded).backward()

    run([column[:4] for column in texts])  # warm-up: kernels, threads, gradients
    peak = Peak()
    peak.start()
    begin = time.perf_counter()
    run(texts)
    seconds = time.perf_counter() - begin
    peak.done.set()
    return {"bytes": peak.highest - peak.start_bytes, "seconds": seconds}


def main() -> None:
    """Run the variants in turns and print ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--micro", type=int, default=16)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--one", choices=["whole", "micro"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(step(options.batch, options.micro if options.one == "micro" else None)))
        return
    measured: dict[str, list[dict[str, float]]] = {"whole": [], "micro": []}
    sizes = [f"--batch={options.batch}", f"--micro={options.micro}"]
    for _ in range(options.turns):
        for name, results in measured.items():
            command = [sys.executable, __file__, "--one", name, *sizes]
            output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            results.append(json.loads(output.splitlines()[-1]))
    best = {
        name: {key: min(result[key] for result in results) for key in ("bytes", "seconds")}
        for name, results in measured.items()
    }
    for name, result in best.items():
        print(f"{name:6} {result['bytes'] / 2**20:6.0f} MiB {result['seconds']:6.2f} s")
    memory = best["micro"]["bytes"] / best["whole"]["bytes"]
    seconds = best["micro"]["seconds"] / best["whole"]["seconds"]
    print(f"memory: {memory:.3f} of the whole batch's (goal: under {GOAL_MEMORY:.3f})")
    print(f"time: {seconds:.2f} times (goal: under {GOAL_TIME})")


if __name__ == "__main__":
    main()

"""Cost of dropout on a CPU: `python benchmarks/dropout.py`.

A step of MiniLM, forward and backward, on batches of 32 sentences of 15 words, with the masks of torch, of
the process (`trainer.dropout=process`) and of the examples (`trainer.dropout=example`) in turns: the shortest
times and their ratios, also of a step in micro batches, and the time of a single mask.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from unittest.mock import patch

import torch
from torch.nn import functional as F

from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.example_dropout import row_keys
from sts_lightning.models.process_dropout import process_mask

TURNS = 8
NAME = "sentence-transformers/all-MiniLM-L6-v2"
KINDS = ("torch", "process", "example")


def shortest(function: Callable[[], object], repeat: int = 200) -> float:
    """Return the shortest time of a call, in microseconds."""
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return min(times) * 1e6


def main() -> None:
    """Time the kinds of dropout in turns and print the ratios."""
    encoder = SentenceEncoder.from_pretrained(NAME).train()
    sentences = [
        [f"a man is playing a large flute number {n} in the park on a sunny day" for n in range(32)]
    ] * 2
    rows = encoder.prepare(512, training=True)(sentences, [None, None])
    keys = row_keys(0, 0, 0, 2, range(32))

    def step(kind: str, micro: bool) -> float:
        begin = time.perf_counter()
        batch = rows.limited(32) if micro else rows
        usual = patch("sts_lightning.models.encoder.dropout_of", lambda *_: nullcontext())
        with usual if kind == "torch" else nullcontext():
            encoder.pool_rows(batch, micro, keys if kind == "example" else None).sum().backward()
        return time.perf_counter() - begin

    for micro in (False, True):
        turns = [[step(kind, micro) for kind in KINDS] for _ in range(TURNS)]
        times = [min(turn[index] for turn in turns) for index in range(len(KINDS))]
        print("micro batches:" if micro else "whole batch:")
        for kind, seconds in zip(KINDS, times, strict=True):
            print(f"  masks of {kind:8} {seconds:.3f} s, {seconds / times[0]:.2f} times torch's")
    x = torch.ones(512, 384)
    torchs, ours = shortest(lambda: F.dropout(x, 0.1)), shortest(lambda: x * process_mask(x, 0.1))
    print(f"one mask of {x.numel():,} elements: torch {torchs:.0f} us, process {ours:.0f} us")
    print(f"{torch.get_num_threads()} threads")


if __name__ == "__main__":
    main()

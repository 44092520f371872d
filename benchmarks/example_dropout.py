"""Cost of dropout that belongs to an example: `python benchmarks/example_dropout.py`.

A step of MiniLM, forward and backward, on batches of 32 sentences of 15 words, with masks of the process and
of the examples in turns on this CPU; the ratio of the shortest times, and that of a step in micro batches.
"""

from __future__ import annotations

import time

import torch

from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.example_dropout import row_keys

TURNS = 8
NAME = "sentence-transformers/all-MiniLM-L6-v2"


def main() -> None:
    """Time both kinds of dropout in turns and print the ratios."""
    encoder = SentenceEncoder.from_pretrained(NAME).train()
    sentences = [
        [f"a man is playing a large flute number {n} in the park on a sunny day" for n in range(32)]
    ] * 2
    rows = encoder.prepare(512, training=True)(sentences, [None, None])
    keys = row_keys(0, 0, 0, 2, range(32))

    def step(own: bool, micro: bool) -> float:
        begin = time.perf_counter()
        batch = rows.limited(32) if micro else rows
        encoder.pool_rows(batch, micro, keys if own else None).sum().backward()
        return time.perf_counter() - begin

    for micro in (False, True):
        times = [(step(False, micro), step(True, micro)) for _ in range(TURNS)]
        process, example = (min(turn[kind] for turn in times) for kind in (0, 1))
        print(
            f"{'micro batches' if micro else 'whole batch'}: {process:.3f} s with masks of the process, "
            f"{example:.3f} s with masks of the examples: {example / process:.2f} times"
        )
    print(f"{torch.get_num_threads()} threads")


if __name__ == "__main__":
    main()

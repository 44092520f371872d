"""Time `torch.compile` of the layers of MiniLM on a CPU: steps in bf16-mixed, encoding in bfloat16.

Needs STS_DATA_ROOT, and a C++ compiler for torch's inductor. The layers are compiled one by one, for rows of
any number and length; steps and passes with and without take turns.
"""

from __future__ import annotations

import copy
import os
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from common import our_minilm

from sts_lightning.config.machine import training_chunk_tokens
from sts_lightning.data.collate import Batch, View, ViewCollator
from sts_lightning.data.module import COLUMNS
from sts_lightning.data.sts import STSData
from sts_lightning.losses.pearson import PearsonLoss
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.tokenized_batch import TokenizedBatch

BATCH, STEPS, TURNS = 64, 8, 3


def compiled(encoder: SentenceEncoder) -> SentenceEncoder:
    """Return a copy of MiniLM whose layers are compiled at their first call."""
    encoder = copy.deepcopy(encoder)
    layers = encoder.get_submodule("backbone.encoder.layer")
    for layer in layers.children():
        layer.compile(dynamic=True)
    return encoder


def train_step(encoder: SentenceEncoder, batch: Batch[TokenizedBatch]) -> None:
    """Run the forward and backward pass of a batch."""
    with torch.autocast("cpu", torch.bfloat16):
        views = encoder(batch.rows).unflatten(0, (2, -1))
    PearsonLoss()(views, batch.labels).backward()
    encoder.zero_grad()


def seconds(call: Callable[[], object]) -> float:
    """Return how long a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def show(name: str, plain: list[float], with_compiler: list[float]) -> None:
    """Print the first call with the compiler, and medians of the calls after the first turn."""
    length = len(plain) // TURNS
    before, after = (statistics.median(times[length:]) for times in (plain, with_compiler))
    ratio = f"{after / before:.2f} times as long as {before:.3f} s without"
    print(f"{name}: first call {with_compiler[0]:.1f} s, then {ratio}")


def main() -> None:
    """Run and print."""
    data = STSData(os.environ["STS_DATA_ROOT"], BATCH, seed=1)
    table = data.load_train().shuffle(seed=1).select(range(BATCH * STEPS))
    precision = "bf16-mixed"
    tokens = training_chunk_tokens("cpu", precision)
    plain = our_minilm().train()
    collate = ViewCollator(
        [View(column) for column in COLUMNS[:2]], "score", plain.prepare(tokens, training=True)
    )
    batches = [collate(table.select(range(BATCH * i, BATCH * (i + 1))).to_list()) for i in range(STEPS)]
    encoders = (plain, compiled(plain))
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(TURNS):
        for encoder, own in zip(encoders, times, strict=True):
            own += [seconds(partial(train_step, encoder, batch)) for batch in batches]
    show(f"training step, {precision}", *times)

    sentences = sorted({text for column in COLUMNS[:2] for text in data.load_train()[column]})
    plain = our_minilm().set_precision("bf16-true").eval()
    encoders, times = (plain, compiled(plain)), ([], [])
    for _ in range(TURNS):
        for encoder, own in zip(encoders, times, strict=True):
            own.append(seconds(partial(encoder.encode, sentences)))
    show(f"encoding of {len(sentences):,} sentences, bf16-true", *times)


if __name__ == "__main__":
    main()

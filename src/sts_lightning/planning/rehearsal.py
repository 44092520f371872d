"""Speed of this CPU on the encoder of a run, by training and encoding a few sentences with random weights."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import torch
from omegaconf import DictConfig
from torch import Tensor

from sts_lightning.config.machine import decide
from sts_lightning.models.freezing import freeze
from sts_lightning.models.inference import evaluation_mode
from sts_lightning.planning.cards import Card
from sts_lightning.planning.meter import Meter
from sts_lightning.planning.skeleton import build_skeleton
from sts_lightning.planning.step import AUTOCAST

LARGEST = 2 * 2**30
"""Bytes of weights up to which a model is rehearsed; beyond them the arithmetic alone says the time."""

SENTENCE = "a man is playing a large flute in the park on a sunny day"
"""A sentence of the usual length."""

CHUNKS = 4
"""Number of chunks in a rehearsed step, which share the casts of the weights, and in an evaluation."""

LONGER = 4
"""Length of a rehearsed report in steps: each call prepares the weights once, however long it is."""

ENOUGH = 2.0
"""Seconds after which a part is not repeated."""


def rehearse(cfg: DictConfig, card: Card, chunk_tokens: int, weights: int, forward_token: float) -> Card:
    """Measure how much longer than its arithmetic the encoder takes on this CPU, with and without gradient.

    The arithmetic knows neither the time of dropout's random numbers, nor that of casts under mixed
    precision, nor how threads share small operations; all of them depend on the processor.

    Args:
        cfg: Configuration that `check_config` has resolved.
        card: This CPU, as `measure_cpu` returns it.
        chunk_tokens: Maximum number of tokens of a chunk, padding included.
        weights: Bytes of the encoder's weights.
        forward_token: Seconds of a token without gradient, by the arithmetic of the plan. That is of the
            longest rows; the sentences of an evaluation are shorter, and take less attention.

    Returns:
        The card with its slowness; unchanged if the model is quantised or larger than `LARGEST`.
    """
    if cfg.model.get("quantization", "none") != "none" or weights > min(LARGEST, card.memory // 4):
        return card
    machine = decide(cfg.trainer)
    with torch.random.fork_rng(devices=[]), _deterministic(machine.deterministic is True):
        torch.manual_seed(0)
        encoder = build_skeleton(cfg.model, cfg.prompt, device="cpu").encoder.train()
        freeze(encoder, cfg.freeze)
        if cfg.trainer.gradient_checkpointing:
            encoder.checkpoint_layers()
        sentences = [SENTENCE] * CHUNKS * max(1, chunk_tokens // len(encoder.tokenizer([SENTENCE])[0]))
        rows = encoder.prepare(chunk_tokens, training=True)([sentences], [None])
        dtype, recompute = AUTOCAST.get(machine.precision), isinstance(cfg.trainer.micro_batch_size, int)

        def forward() -> Tensor:
            with nullcontext() if dtype is None else torch.autocast("cpu", dtype):
                return encoder.project(encoder.pool_rows(rows, recompute))

        def step() -> None:
            vectors = forward()
            if vectors.requires_grad:  # nothing does where the encoder is frozen
                vectors.backward(torch.ones_like(vectors))

        planned = forward_token * sum(chunk["input_ids"].numel() for chunk in rows.chunks)
        training = _shortest(step) / _predicted(step, card)
        recompute = False
        with torch.no_grad(), evaluation_mode(encoder):
            dev = _shortest(forward) / planned
    encoder.set_precision(cfg.evaluation.precision or "32-true")
    report = _shortest(lambda: encoder.encode(LONGER * sentences)) / (LONGER * planned)
    return replace(card, slowness=(training, dev, report))


def _predicted(call: Callable[[], object], card: Card) -> float:
    """Return the seconds of a call by its arithmetic."""
    with Meter() as meter:
        call()
    seconds = card.seconds(meter.costs)
    assert seconds is not None  # the speed of this CPU has been measured
    return seconds


def _shortest(call: Callable[[], object], turns: int = 5) -> float:
    """Return the shortest of the seconds of a few calls, after a first one; a long call is not repeated."""
    times: list[float] = []
    call()
    while len(times) < turns and sum(times) < ENOUGH:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


@contextmanager
def _deterministic(wanted: bool) -> Iterator[None]:
    own = torch.get_deterministic_debug_mode()
    torch.use_deterministic_algorithms(wanted)
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(own)

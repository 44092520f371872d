"""Attention in half precision on a CPU: `python benchmarks/cpu_attention.py`.

Shortest times, in turns, of attention without gradient as torch runs it and with padded keys
(`attend_padded`), of forward and backward pass in bfloat16 and in float32 (`attend_in_float32`), and of what
contains them: encoding with MiniLM in bfloat16, and a step of it without dropout under autocast.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional as F

from sts_lightning.models.cpu_attention import attend_in_float32, attend_padded
from sts_lightning.models.encoder import SentenceEncoder

NAME = "sentence-transformers/all-MiniLM-L6-v2"
LENGTHS = (6, 10, 13, 16, 24, 40, 90)
TOKENS = 1024


def main() -> None:
    """Time and print."""
    torch.manual_seed(0)
    for heads, width in ((12, 32), (12, 64)):
        for length in LENGTHS:
            parts = rows(length, heads, width)
            with torch.no_grad():
                forward = ratio(partial(fused, *parts), partial(attend_padded, fused, *parts))
            both = ratio(
                partial(backward, fused, *parts), partial(backward, attend_in_float32, fused, *parts)
            )
            print(f"{heads} heads of {width}, {length:2} tokens: forward {forward}, with backward {both}")
    encoder = SentenceEncoder.from_pretrained(NAME).eval()
    text = "a man is playing a large flute in the park on a sunny day and a dog barks at him"
    sentences = [text[: 12 + 4 * (n % 18)] for n in range(1500)]
    batch = encoder.prepare(TOKENS, training=True)([sentences[:128]], [None])

    def step(usual: bool) -> None:
        as_torch = patch("sts_lightning.models.dropout_mode.attend_in_float32", lambda f, *a, **o: f(*a, **o))
        with as_torch if usual else nullcontext(), torch.autocast("cpu", dtype=torch.bfloat16):
            encoder(batch).sum().backward()

    print(f"step without dropout: {ratio(lambda: step(True), lambda: step(False), 4)}")
    encoder.set_precision("bf16-true")

    def encode(usual: bool) -> None:
        as_torch = patch("sts_lightning.models.encoder.inference_attention", lambda _: nullcontext())
        with as_torch if usual else nullcontext():
            encoder.encode(sentences)

    print(f"encoding: {ratio(lambda: encode(True), lambda: encode(False), 8)}")


def fused(*parts: Tensor, **options: object) -> Tensor:
    """Attend as torch does."""
    return F.scaled_dot_product_attention(*parts, **options)  # type: ignore[arg-type]


def backward(attend: Callable[..., Tensor], *parts: object) -> None:
    """Attend with a gradient."""
    attend(*parts).sum().backward()


def rows(length: int, heads: int, width: int) -> list[Any]:
    """Make `TOKENS` tokens of queries, keys and values in bfloat16, and a mask that hides the last key."""
    count = TOKENS // length
    made = torch.randn(3, count, length, heads, width).bfloat16().transpose(2, 3).requires_grad_().unbind()
    visible = torch.ones(count, 1, length, length, dtype=torch.bool)
    visible[1:, ..., -1] = False
    return [*made, visible]


def ratio(usual: Callable[[], object], own: Callable[[], object], turns: int = 20) -> str:
    """Return the shortest times of two functions, called in turns, in words."""
    times: list[list[float]] = [[], []]
    for turn in range(turns + 1):
        for function, found in zip((usual, own), times, strict=True):
            begin = time.perf_counter()
            function()
            found.extend([time.perf_counter() - begin] if turn else [])
    before, after = (min(found) * 1e3 for found in times)
    return f"{before:.2f} -> {after:.2f} ms ({after / before:.2f} times)"


if __name__ == "__main__":
    main()

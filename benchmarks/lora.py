"""Measure a step with LoRA against peft's layers: `make bench-lora`.

Two layers of Mistral-7B's width and six of SmolLM2-135M's with random weights and the papers' LoRA, with
and without dropout: bytes of distinct tensors that autograd keeps, weights excluded; time, in turns in one
process. Each line is ours as a ratio of peft's.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from functools import partial
from unittest.mock import patch

import torch
from decoders import make_encoder
from profiled import kept_bytes
from torch import Tensor

from sts_lightning.models.compute.lora import fuse
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading import adapters

ROWS = {"mistral7b_two_layers": 2, "smollm2_six_layers": 6}
"""Shapes that are compared, and the rows of the maximum length of a step."""

Step = Callable[[], Tensor]


def pair(shape: str, dtype: torch.dtype, rate: float) -> dict[str, SentenceEncoder]:
    """Return a model with peft's layers, and one with ours around the same weights."""
    encoders = {}
    for name in ("peft", "ours"):
        replace = fuse if name == "ours" else lambda model: None
        with patch.object(adapters, "fuse", replace):
            encoders[name] = make_encoder(shape, dtype, "cpu", nf4=False, dropout=rate).train()
    theirs, ours = encoders["peft"], encoders["ours"]
    generator = torch.Generator().manual_seed(1)
    for name, weight in theirs.named_parameters():
        if "lora_B" in name:
            weight.data.normal_(0, 0.01, generator=generator)
    for own, weight in zip(ours.parameters(), theirs.parameters(), strict=True):
        if own.shape == weight.shape:
            own.data = weight.data
    return encoders


def forward(encoder: SentenceEncoder, rows: int, mixed: bool) -> Tensor:
    """Embed rows of the maximum length as training does."""
    texts = ["a " * encoder.tokenizer.lengths.train] * rows
    (chunk,) = encoder.tokenizer.training_rows([texts], [None], 10**9).chunks
    with torch.autocast("cpu", torch.bfloat16, enabled=mixed, cache_enabled=False):
        return encoder.embed_chunk(chunk)


def step(encoder: SentenceEncoder, rows: int, mixed: bool) -> tuple[Tensor, float]:
    """Return the gradient of a step, and its seconds."""
    torch.manual_seed(0)
    encoder.zero_grad()
    begin = time.perf_counter()
    vectors = forward(encoder, rows, mixed)
    # The norm of a vector hardly has a gradient behind the last norm.
    (vectors * torch.arange(vectors.numel()).reshape(vectors.shape).cos()).sum().backward()
    seconds = time.perf_counter() - begin
    gradients = [parameter.grad for parameter in encoder.parameters() if parameter.grad is not None]
    return torch.cat([gradient.flatten() for gradient in gradients]), seconds


def compare(rate: float, shape: str, dtype: torch.dtype, rows: int, turns: int) -> None:
    """Print bytes kept, time and the difference of the gradients; bfloat16 under autocast."""
    mixed = dtype == torch.bfloat16
    name = "bf16-mixed" if mixed else "float32"
    encoders = pair(shape, dtype, rate)
    kept = {
        who: kept_bytes(encoder, partial(forward, encoder, rows, mixed)) for who, encoder in encoders.items()
    }
    times: dict[str, list[float]] = {who: [] for who in encoders}
    gradients = {}
    for _ in range(turns):
        for who, encoder in encoders.items():
            gradients[who], seconds = step(encoder, rows, mixed)
            times[who].append(seconds)
    best = {who: min(seconds) for who, seconds in times.items()}
    apart = (gradients["ours"] - gradients["peft"]).norm() / gradients["peft"].norm()
    # With dropout both drop other elements on a CPU.
    equal = f"; gradients differ by {apart:.0e}" if rate == 0 else ""
    print(
        f"{shape}, {name}, dropout {rate}: kept {kept['ours'] / 2**20:.0f} of {kept['peft'] / 2**20:.0f} MiB "
        f"({kept['ours'] / kept['peft']:.2f}), time "
        f"{best['ours']:.2f} of {best['peft']:.2f} s ({best['ours'] / best['peft']:.2f}){equal}",
        flush=True,
    )


def main() -> None:
    """Measure, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    for shape, rows in ROWS.items():
        for rate in (0.05, 0.0):
            for dtype in (torch.bfloat16, torch.float32):
                compare(rate, shape, dtype, rows, options.turns)
                gc.collect()


if __name__ == "__main__":
    main()

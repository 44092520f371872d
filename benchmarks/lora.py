"""Measure a step with LoRA against peft's layers: `make bench-lora`.

Two layers of Mistral-7B's width with random weights and the papers' LoRA, with and without dropout: bytes of
distinct tensors that autograd keeps, weights excluded; bytes that operations read and write in a forward and
a backward pass; time. A CPU keeps a mask in the input's dtype, a GPU one byte an element: `as on a GPU` takes
the GPU's operation and its rule for dtypes, on NF4 weights of a narrow model. Each line is ours as a ratio of
peft's, in turns in one process.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from unittest.mock import patch

import torch
from decoders import make_encoder
from profiled import kept_bytes
from torch import Tensor, nn

from sts_lightning.models.compute.lora import fuse
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading import adapters
from sts_lightning.planning.meter import Meter

Step = Callable[[], Tensor]


def pair(shape: str, dtype: torch.dtype, rate: float, nf4: bool) -> dict[str, SentenceEncoder]:
    """Return a model with peft's layers, and one with ours around the same weights."""
    encoders = {}
    for name in ("peft", "ours"):
        replace = fuse if name == "ours" else lambda model: None
        with patch.object(adapters, "fuse", replace):
            encoders[name] = make_encoder(shape, dtype, "cpu", nf4, dropout=rate).train()
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
    with torch.autocast("cpu", torch.bfloat16, enabled=mixed, cache_enabled=False):
        return encoder.embed_chunk(encoder.longest_rows(rows))


@contextmanager
def as_on_a_gpu() -> Iterator[None]:
    """Draw masks with the operation, and in the dtypes, of a GPU."""
    before = torch.is_autocast_enabled("cuda")
    torch.set_autocast_enabled("cuda", True)  # peft asks for CUDA's autocast, whatever the device

    def drop(layer: nn.Dropout, x: Tensor) -> Tensor:
        return torch.native_dropout(x, layer.p, True)[0]

    try:
        with patch.object(nn.Dropout, "forward", drop):
            yield
    finally:
        torch.set_autocast_enabled("cuda", before)


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


def moved(encoder: SentenceEncoder, rows: int, mixed: bool) -> int:
    """Return the bytes that the operations of a step read and write."""
    with Meter() as meter:
        step(encoder, rows, mixed)
    return sum(cost.moved * count for cost, count in meter.costs.items())


def compare(rate: float, shape: str, dtype: torch.dtype, rows: int, turns: int) -> None:
    """Print bytes kept, bytes moved, time and the difference of the gradients; bfloat16 under autocast."""
    mixed = dtype == torch.bfloat16
    name = "bf16-mixed" if mixed else "float32"
    encoders = pair(shape, dtype, rate, nf4=False)
    kept = {
        who: kept_bytes(encoder, partial(forward, encoder, rows, mixed)) for who, encoder in encoders.items()
    }
    traffic = {who: moved(encoder, rows, mixed) for who, encoder in encoders.items()}
    times: dict[str, list[float]] = {who: [] for who in encoders}
    gradients = {}
    for _ in range(turns):
        for who, encoder in encoders.items():
            gradients[who], seconds = step(encoder, rows, mixed)
            times[who].append(seconds)
    best = {who: min(seconds) for who, seconds in times.items()}
    apart = (gradients["ours"] - gradients["peft"]).norm() / gradients["peft"].norm()
    print(
        f"{name}, dropout {rate}: kept {kept['ours'] / 2**20:.0f} of {kept['peft'] / 2**20:.0f} MiB "
        f"({kept['ours'] / kept['peft']:.2f}), moved {traffic['ours'] / traffic['peft']:.2f}, time "
        f"{best['ours']:.2f} of {best['peft']:.2f} s ({best['ours'] / best['peft']:.2f}); "
        f"gradients differ by {apart:.0e}",
        flush=True,
    )


def main() -> None:
    """Measure, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", default="mistral7b_two_layers")
    parser.add_argument("--rows", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    for rate in (0.05, 0.0):
        encoders = pair("small", torch.bfloat16, rate, nf4=True)
        with as_on_a_gpu():
            kept = {
                who: kept_bytes(encoder, partial(forward, encoder, 8, True))
                for who, encoder in encoders.items()
            }
        print(
            f"NF4 as on a GPU, dropout {rate}: kept {kept['ours'] / 2**20:.1f} of "
            f"{kept['peft'] / 2**20:.1f} MiB ({kept['ours'] / kept['peft']:.2f})"
        )
    for rate in (0.05, 0.0):
        for dtype in (torch.bfloat16, torch.float32):
            compare(rate, options.shape, dtype, options.rows, options.turns)
            gc.collect()


if __name__ == "__main__":
    main()

"""Measure what LoRA's dropout keeps for the backward pass, against peft's layers: `make bench-lora-dropout`.

A Mistral of four layers with the proportions of Mistral-7B, NF4 weights, bfloat16 arithmetic and the papers'
LoRA, no checkpointing. Counted are the bytes of distinct tensors that autograd keeps, weights excluded. A CPU
keeps a mask in the input's dtype, a GPU one byte an element: `as on a GPU` takes the GPU's operation and its
rule for dtypes. The gradients of both are compared, too.
"""

from __future__ import annotations

import argparse
import statistics
import time
from unittest.mock import patch

import torch
from decoders import make_encoder
from profiled import kept_bytes
from torch import Tensor, nn

from sts_lightning.models.compute.lora import save_inputs_once
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading import adapters


def forward(encoder: SentenceEncoder, rows: int) -> Tensor:
    """Embed rows of the maximum length as training does."""
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        return encoder.embed_chunk(encoder.longest_rows(rows))


def as_on_a_cpu(encoder: SentenceEncoder, rows: int) -> int:
    """Return the bytes kept by a forward pass on this machine."""
    return kept_bytes(encoder, lambda: forward(encoder, rows))


def as_on_a_gpu(encoder: SentenceEncoder, rows: int) -> int:
    """Return the bytes kept with the mask and the dtypes that a GPU has."""
    before = torch.is_autocast_enabled("cuda")
    torch.set_autocast_enabled("cuda", True)  # peft asks for CUDA's autocast, whatever the device

    def drop(layer: nn.Dropout, x: Tensor) -> Tensor:
        return torch.native_dropout(x, layer.p, True)[0]

    try:
        with patch.object(nn.Dropout, "forward", drop):
            return as_on_a_cpu(encoder, rows)
    finally:
        torch.set_autocast_enabled("cuda", before)


def step(encoder: SentenceEncoder, rows: int) -> tuple[Tensor, float]:
    """Return the gradient of a step, and its seconds."""
    torch.manual_seed(0)
    encoder.zero_grad()
    begin = time.perf_counter()
    forward(encoder, rows).square().sum().backward()
    seconds = time.perf_counter() - begin
    gradients = [parameter.grad for parameter in encoder.parameters() if parameter.grad is not None]
    return torch.cat([gradient.flatten() for gradient in gradients]), seconds


def main() -> None:
    """Measure both, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    encoders = {}
    for name in ("peft", "ours"):
        replace = save_inputs_once if name == "ours" else lambda model: None
        with patch.object(adapters, "save_inputs_once", replace):
            encoders[name] = make_encoder("small", torch.bfloat16, "cpu", nf4=True).train()
    ours, theirs = encoders["ours"], encoders["peft"]
    ours.load_state_dict(theirs.state_dict(), strict=False)
    for what, count in (("as on a CPU", as_on_a_cpu), ("as on a GPU", as_on_a_gpu)):
        mine, other = count(ours, options.rows), count(theirs, options.rows)
        print(f"kept {what}: peft {other / 2**20:.1f} MiB, ours {mine / 2**20:.1f} MiB, {mine / other:.2f}")
    times: dict[str, list[float]] = {"ours": [], "peft": []}
    for _ in range(options.turns):
        for name, encoder in encoders.items():
            times[name].append(step(encoder, options.rows)[1])
    equal = torch.equal(step(ours, options.rows)[0], step(theirs, options.rows)[0])
    ratio = statistics.median(times["ours"]) / statistics.median(times["peft"])
    print(f"time of a step on this CPU: {ratio:.2f} of peft's; gradients equal bit for bit: {equal}")


if __name__ == "__main__":
    main()

"""Memory that kernels of bfloat16 products take on a CPU: `python benchmarks/kernel_caches.py`.

Steps of MiniLM on 96 NLI triplets in bf16, in two processes one after the other: with the limits that the
command line sets, and with the 1,024 kernels that oneDNN and torch keep by default. Needs STS_DATA_ROOT.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

import psutil
import torch
from common import our_minilm

from sts_lightning.config.machine import training_chunk_tokens
from sts_lightning.data.collate import View, ViewCollator
from sts_lightning.data.nli_triplets import NLITripletsData
from sts_lightning.host_memory import CACHES, bound_kernel_caches
from sts_lightning.losses.infonce import InfoNCELoss

BATCH = 96


def train(steps: int) -> None:
    """Train, and print memory and time."""
    data = NLITripletsData(os.environ["STS_DATA_ROOT"], BATCH, seed=1)
    table = data.load_train().select(range(BATCH * steps))
    encoder = our_minilm().train()
    views = [View(column) for column in ("sentence1", "sentence2", "sentence3")]
    tokens = training_chunk_tokens("cpu", "bf16-mixed")
    collate = ViewCollator(views, "none", encoder.prepare(tokens, training=True))
    begin = time.perf_counter()
    for step in range(steps):
        batch = collate(table.select(range(step * BATCH, (step + 1) * BATCH)).to_list())
        with torch.autocast("cpu", torch.bfloat16):
            embedded = encoder(batch.rows).unflatten(0, (len(views), -1))
        InfoNCELoss()(embedded.float()).backward()
        encoder.zero_grad()
    memory = psutil.Process().memory_info().rss / 2**20
    print(f"{memory:.0f} MiB after {steps} steps, {time.perf_counter() - begin:.1f} s")


def main() -> None:
    """Run the steps in a process for each setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=36)
    parser.add_argument("--alone", action="store_true", help="train in this process")
    options = parser.parse_args()
    if options.alone:
        bound_kernel_caches()
        train(options.steps)
        return
    command = [sys.executable, __file__, "--alone", f"--steps={options.steps}"]
    for name, given in (("limited", {}), ("default", dict.fromkeys(CACHES, "1024"))):
        print(f"{name}:", flush=True)
        subprocess.run(command, env=os.environ | given, check=True)


if __name__ == "__main__":
    main()

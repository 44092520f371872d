"""A grid of heads against its runs one by one: `python benchmarks/head_grid.py FOLDER`.

Slopes k and buffer zones x0 as in STS-Regression's Table 5 for a frozen MiniLM: 126 heads on 5,000 NLI pairs
with `sts-lightning heads`, then one of them with `train.py`, each with its reading of the data; the ratio of
the processor times, if each run took that of this one, and the difference of its weights. FOLDER must be new.
"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

import torch

from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.head_cells import compose_cells
from sts_lightning.workflows.heads import train_heads
from sts_lightning.workflows.train import train_in

GRID = [
    "experiment=regression_head",
    "data.limit=5000",
    "precision=32-true",
    "logger=csv",
    "loss=translated_relu,smooth_k2",
    "loss.k=1,1.5,2,2.5,3,3.5,4",
    "loss.x0=0.15,0.2,0.25",
    "seed=1,2,3",
]
NAMES = ("loss.head.weight", "loss.head.bias")


def main() -> None:
    """Time both and print the ratio."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    folder = Path(sys.argv[1])
    begin = time.process_time()
    cells = compose_cells(GRID)
    grid = train_heads(cells, folder)
    together = time.process_time() - begin
    parts = ", ".join(f"{name} {seconds:g} s" for name, seconds in grid.seconds.items())
    print(
        f"{len(cells)} heads at once: {together:.0f} s of the processor (by the clock: {parts})", flush=True
    )
    cell = cells[-1]
    begin = time.process_time()
    train_in(folder / "alone", cell.cfg)
    alone = time.process_time() - begin
    states = [RunFolder(folder / name).read_checkpoint("last")["state_dict"] for name in (cell.name, "alone")]
    differences = [float((states[0][name] - states[1][name]).abs().max()) for name in NAMES]
    print(
        f"one run: {alone:.0f} s; {len(cells)} runs, one by one: {len(cells) * alone:.0f} s, "
        f"{len(cells) * alone / together:.0f} times as long. Largest difference of a head's weight: "
        f"{differences[0]:.1g}, of its bias: {differences[1]:.1g}. {torch.get_num_threads()} threads"
    )


if __name__ == "__main__":
    main()

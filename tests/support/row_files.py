"""Files of queries and the texts that answer them, from the generated language."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from sts_lightning.testing.toy import triplets

ROW_RUN = [
    "model=tiny_bert",
    "data=triplets_file",
    "loss=infonce",
    "data.batch_size=16",
    "trainer.max_epochs=2",
    "trainer.val_every=0.5",
    "optim.lr=1e-3",
    "logger=csv",
]
"""A run of some seconds on 120 rows: an evaluation every 3 or 4 steps."""


def write_rows(path: Path, count: int = 120, columns: int = 3, seed: int = 3) -> str:
    """Write anchors, paraphrases and hard negatives, or the first columns of these."""
    table = triplets(count, np.random.default_rng(seed))
    names = ["anchor", "positive", "negative"][:columns]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        texts = [table[f"sentence{number + 1}"] for number in range(columns)]
        writer.writerows(zip(*texts, strict=True))
    return str(path)

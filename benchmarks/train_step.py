"""Time the training step against the sentence-transformers trainer: `make bench-train`.

Both train MiniLM on the same pairs of the filtered corpus in batches of 64, on the same machine, in turns.
Ours is the run that `train.py` makes of the default configuration: deterministic, with its loggers, callbacks
and checkpoints, tokenising in the step. The median over steps is reported, which ignores outliers. Also check
that chunking leaves the gradient unchanged.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from common import our_minilm, their_minilm
from datasets import Dataset
from hydra import compose
from lightning.pytorch.callbacks import Callback
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer import losses
from transformers import TrainerCallback

from sts_lightning.config.compose import composing
from sts_lightning.core.hardware import TRAINING_CHUNKS
from sts_lightning.data.collate import ViewCollator
from sts_lightning.data.data_set import column_views
from sts_lightning.data.sts_train import sts_train
from sts_lightning.data.table import LABELLED
from sts_lightning.losses.pearson import PearsonLoss
from sts_lightning.workflows.start import train_in

BATCH = 64
Precision = Literal["32-true", "bf16-mixed"]


class Clock(Callback):
    """Record the start time of each step."""

    def __init__(self) -> None:
        self.starts: list[float] = []

    def on_train_batch_start(self, *args: Any) -> None:
        self.starts.append(time.perf_counter())


class TransformersClock(TrainerCallback):
    """Record the start time of each step of the peer."""

    def __init__(self) -> None:
        self.starts: list[float] = []

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        self.starts.append(time.perf_counter())

    def on_train_end(self, *args: Any, **kwargs: Any) -> None:
        self.starts.append(time.perf_counter())


def durations(starts: list[float]) -> list[float]:
    """Return step times without the first two, which are warm-up."""
    return [after - before for before, after in pairwise(starts[2:])]


def our_steps(
    table: Dataset, precision: Precision, deterministic: str = "auto", further: Sequence[str] = ()
) -> list[float]:
    """Return step times of `train.py`'s own run, but that of the last, which the dev evaluation follows."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        pairs = Path(folder) / "pairs.jsonl"
        table.select_columns(list(LABELLED)).to_json(pairs)
        dev = Path(folder) / "dev.jsonl"
        table.select(range(BATCH)).select_columns(list(LABELLED)).to_json(dev)
        overrides = [
            "data=pairs_file",
            f"path={pairs}",
            f"data.dev_path={dev}",
            "data.columns=[sentence1,sentence2,label]",
        ]
        overrides += [f"data.batch_size={BATCH}", f"precision={precision}", "evaluation.final=false"]
        overrides += ["name=bench", "trainer.max_epochs=1", "trainer.val_every=null"]
        overrides += [f"trainer.deterministic={deterministic}", *further]
        with composing():
            cfg = compose("train", overrides)
        with contextlib.redirect_stdout(io.StringIO()):
            train_in(Path(folder) / "run", cfg, callbacks=[clock])
    torch.use_deterministic_algorithms(False)  # Lightning leaves it on, and the peer follows in this process
    return durations(clock.starts)


def their_steps(
    table: Dataset, loss: str, bf16: bool = False, model: SentenceTransformer | None = None
) -> list[float]:
    """Return step times of the sentence-transformers trainer, by default of MiniLM on the CPU."""
    assert not torch.are_deterministic_algorithms_enabled(), "the peer would be slowed down"
    model = model or their_minilm()
    if loss == "CoSENTLoss":
        data = table.rename_column("label", "score").select_columns(["sentence1", "sentence2", "score"])
    else:
        data = table.select_columns(["sentence1", "sentence2"])
    clock = TransformersClock()
    with tempfile.TemporaryDirectory() as folder_out:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=folder_out,
            num_train_epochs=1,
            per_device_train_batch_size=BATCH,
            learning_rate=5e-5,
            use_cpu=model.device.type == "cpu",
            bf16=bf16,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        )
        trainer = SentenceTransformerTrainer(
            model=model,
            args=arguments,
            train_dataset=data,
            loss=getattr(losses, loss)(model),
            callbacks=[clock],
        )
        trainer.train()
    return durations(clock.starts)


def gradient_difference(table: Dataset, chunk_tokens: int) -> float:
    """Return the largest difference of chunked and unchunked gradients, relative to the largest entry."""
    encoder = our_minilm().eval()
    gradients = []
    for tokens in (chunk_tokens, 10**9):
        model = copy.deepcopy(encoder)
        collate = ViewCollator(column_views(2), "score", model.prepare(tokens, training=True))
        batch = collate(table.select(range(BATCH)).to_list())
        views = model(batch.rows).unflatten(0, (2, -1))
        PearsonLoss()(views, batch.labels).backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    difference = (gradients[0] - gradients[1]).abs().max() / gradients[1].abs().max()
    return float(difference)


def main() -> None:
    """Run and print; exit with status 1 if the gradients differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=12, help="timed steps in each turn")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument(
        "--loss", default="CoSENTLoss", choices=["CoSENTLoss", "MultipleNegativesRankingLoss"]
    )
    parser.add_argument("--ours-only", action="store_true")
    parser.add_argument("--bf16", action="store_true", help="also in bfloat16; slow where it is emulated")
    options = parser.parse_args()

    splits = sts_train(os.environ["STS_DATA_ROOT"]).read()
    rows = np.random.default_rng(1).permutation(len(splits.train))
    table = Dataset.from_dict({**splits.train[rows[: BATCH * (options.steps + 2)]].columns})
    contenders: dict[str, Callable[[], list[float]]] = {
        "ours float32": partial(our_steps, table, "32-true"),
        "ours float32, deterministic=false": partial(our_steps, table, "32-true", "false"),
    }
    if options.bf16:
        contenders["ours bf16-mixed"] = partial(our_steps, table, "bf16-mixed")
    if not options.ours_only:
        contenders["theirs float32"] = partial(their_steps, table, options.loss)
        if options.bf16:
            contenders["theirs bf16"] = partial(their_steps, table, options.loss, bf16=True)
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(options.turns):
        for name, measure in contenders.items():
            times[name] += measure()
    speed = {name: BATCH / statistics.median(steps) for name, steps in times.items()}
    for name, pairs in speed.items():
        print(f"{name:34} {pairs:6.1f} pairs per second (median of {len(times[name])} steps)")

    difference = gradient_difference(table, TRAINING_CHUNKS["cpu"])
    print(f"chunked against unchunked gradient: largest relative difference {difference:.1e}")
    cost = speed["ours float32, deterministic=false"] / speed["ours float32"] - 1
    print(f"determinism costs {cost:.0%} (goal: under 5%)")
    for name, goal in (("ours float32", 2.0), ("ours bf16-mixed", 3.5)):
        if "theirs float32" in speed and name in speed:
            ratio = speed[name] / speed["theirs float32"]
            print(f"{name} / theirs float32 ({options.loss}): {ratio:.2f} (goal: {goal})")
    if "theirs bf16" in speed:
        print(f"ours bf16-mixed / theirs bf16: {speed['ours bf16-mixed'] / speed['theirs bf16']:.2f}")
    sys.exit(int(difference > 1e-4))


if __name__ == "__main__":
    main()

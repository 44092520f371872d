"""Every loss under every division of a batch, against one process: `make compositions`, or this script.

A cell is a loss and a composition: micro batches, chunks, gradient checkpointing, several processes (DDP),
divided weights (FSDP), two nodes, dropout that belongs to the example, 4-bit weights with LoRA. It trains
five steps on the generated language and is compared with one process that embeds the whole batch at once:
the gradient of each step before clipping, and the weights after the last one. The difference is the largest
over all entries, relative to the largest entry. A cell is equal up to `TOLERANCE`, or the configuration
rejects it and says why. All start from a short run of InfoNCE: before it the cosines of all sentences are
nearly equal, and what a correlation of them is, float32 hardly tells.

The processes are started by torchrun and run all cells one after the other; two nodes are two torchruns.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from composition_grid import BASE, COMPOSITIONS, MODELS, SHAPE, START, Composition, rows
from hydra import compose
from lightning.pytorch.callbacks import Callback
from torch import Tensor
from transformers import MistralConfig

from sts_lightning.config.build import build
from sts_lightning.config.composing import composing
from sts_lightning.data.module import SentenceDataModule
from sts_lightning.distributed import Shard
from sts_lightning.errors import UserError
from sts_lightning.models.sharding import gathered
from sts_lightning.runs.folder import RunFolder
from sts_lightning.testing.tiny_decoders import write_mistral
from sts_lightning.text import one_line
from sts_lightning.workflows.train import build_experiment, train_in
from sts_lightning.workflows.validate import validate

TOLERANCE = 1e-5

LEAST = 1e-6
"""Largest entry of the gradient below which there is nothing to compare."""


class Recorder(Callback):
    """Keeps the gradients of all steps, and the weights after the last one."""

    def __init__(self) -> None:
        self.gradients: list[dict[str, Tensor]] = []

    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: Any
    ) -> None:
        """Keep the gradients."""
        own = {name: value.grad for name, value in pl_module.named_parameters() if value.grad is not None}
        self.gradients.append(_copied(gathered(own)))

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Keep the weights."""
        self.weights = _copied(trainer.strategy.lightning_module_state_dict())


def _copied(tensors: dict[str, Tensor | None]) -> dict[str, Tensor]:
    """Return copies that the next step does not change, of those that this process has."""
    return {name: value.clone() for name, value in tensors.items() if value is not None}


def measure(folder: Path, settings: Sequence[str]) -> dict[str, Any]:
    """Train a cell; return its gradients and weights, or why it is rejected.

    Args:
        folder: Folder of the run.
        settings: Overrides of the configuration.
    """
    recorder = Recorder()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with composing():
            cfg = compose("train", list(settings))
        experiment = build_experiment(validate(RunFolder(folder), cfg, False, [recorder]), "")
        experiment.module.train()
        experiment.trainer.fit(experiment.module, experiment.parts.data)
    except UserError as error:
        return {"rejected": str(error)}
    return {"gradients": recorder.gradients, "weights": recorder.weights}


def difference(one: Sequence[dict[str, Tensor]], two: Sequence[dict[str, Tensor]]) -> float:
    """Return the largest difference of two sequences of named tensors, relative to the largest entry.

    It is infinite where all entries of a step are nearly 0.
    """
    worst = 0.0
    for left, right in zip(one, two, strict=True):
        assert left.keys() == right.keys(), left.keys() ^ right.keys()
        largest = max(float(value.abs().max()) for value in left.values())
        if largest < LEAST:
            return math.inf
        apart = max(float((value - right[name]).abs().max()) for name, value in left.items())
        worst = max(worst, apart / largest)
    return worst


def work(out: Path, jobs: Path) -> None:
    """Run the cells of a file one after the other, as one of the processes that torchrun has started."""
    torch.set_num_threads(1)
    for name, settings in json.loads(jobs.read_text()).items():
        torch.manual_seed(0)
        found = measure(out / "runs" / name, settings)
        if "rejected" in found:
            print(f"{name}, process {Shard.current().rank}: {found['rejected']}", file=sys.stderr, flush=True)
        if Shard.current().rank == 0:
            torch.save(found, out / f"{name}.pt")


def store_teacher(folder: Path) -> Path:
    """Write vectors of random numbers for all sentences of the generated data."""
    texts: set[str] = set()
    for kind in ("pairs", "triplets", "sentences"):
        with composing():
            cfg = compose("train", [*BASE, f"data.kind={kind}"])
        data: SentenceDataModule = build("data", cfg.data, SentenceDataModule)
        data.setup()
        for column in data.train.column_names:
            texts |= {value for value in data.train[column] if isinstance(value, str)}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sentences.txt").write_text("\n".join(sorted(texts)) + "\n")
    vectors = np.random.default_rng(0).normal(size=(len(texts), 16)).astype(np.float32)
    np.save(folder / "vectors.npy", vectors)
    return folder


def torchrun(out: Path, jobs: dict[str, list[str]], processes: int, nodes: int) -> None:
    """Run cells in several processes; of two nodes each has a torchrun of its own."""
    listing = out / f"jobs_{nodes}_{processes}.json"
    listing.write_text(json.dumps(jobs))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = []
    for node in range(nodes):
        command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}"]
        command += [f"--nnodes={nodes}", f"--node-rank={node}", "--master-addr=127.0.0.1"]
        command += [f"--master-port={port}", __file__, "--work", str(listing), "--out", str(out)]
        started.append(
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=(out / "errors.txt").open("a"))
        )
    codes = [process.wait() for process in started]
    if any(codes):
        sys.exit(f"{listing.name}: the processes ended with {codes}; see {out / 'errors.txt'}")


def _model(name: str, out: Path) -> list[str]:
    """Return the settings of a model, and of the run that its cells start from."""
    own = [text.replace("{folder}", str(out)) for text in MODELS[name]]
    start = out / f"start_{name}"
    if not RunFolder(start).finished:
        with composing():
            cfg = compose("train", [*BASE, *own, *START])
        train_in(start, cfg, resume=RunFolder(start).resumable)
    return [*own, f"init_from={start}"]


def compare(
    out: Path, wanted: dict[str, tuple[str, ...]], compositions: Sequence[Composition]
) -> Iterator[tuple[str, Composition, float | str]]:
    """Run cells and their references, and compare them.

    Args:
        out: Folder of the runs.
        wanted: Settings of each row by its name.
        compositions: The columns.

    Yields:
        Row, column, and the difference, or the reason why the configuration rejects the cell.
    """
    out.mkdir(parents=True, exist_ok=True)
    if not (out / "mistral").is_dir():
        write_mistral(out / "mistral", MistralConfig(**SHAPE))
    groups: dict[tuple[int, int], dict[str, list[str]]] = {}
    models = {name: _model(name, out) for name in MODELS}
    for row, settings in wanted.items():
        for model, own in models.items():
            given = [*BASE, *own, *settings]
            groups.setdefault((1, 1), {})[f"{row}@{model}"] = given
        for composition in compositions:
            given = [*BASE, *models[composition.model], *settings, *composition.settings]
            key = (composition.processes, composition.nodes)
            groups.setdefault(key, {})[f"{row}@{COMPOSITIONS.index(composition)}"] = given
    for (processes, nodes), jobs in sorted(groups.items()):
        left = {name: given for name, given in jobs.items() if not (out / f"{name}.pt").is_file()}
        for name in left:
            shutil.rmtree(out / "runs" / name, ignore_errors=True)  # of a cell that was interrupted
        if left:
            torchrun(out, left, processes, nodes)
    for row in wanted:
        for composition in compositions:
            reference = torch.load(out / f"{row}@{composition.model}.pt", weights_only=True)
            found = torch.load(out / f"{row}@{COMPOSITIONS.index(composition)}.pt", weights_only=True)
            if "rejected" in reference or "rejected" in found:
                yield row, composition, found.get("rejected") or f"reference: {reference['rejected']}"
            else:
                apart = difference(reference["gradients"], found["gradients"])
                yield row, composition, max(apart, difference([reference["weights"]], [found["weights"]]))


def main() -> None:
    """Run the grid, print it, and write it for the documentation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/compositions"), help="default: %(default)s")
    parser.add_argument("--rows", nargs="+", help="rows to run; default: all")
    parser.add_argument("--write", type=Path, help="file of the documentation to write")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        work(options.out, options.work)
        return
    everything = rows(store_teacher(options.out.absolute() / "teacher"))
    wanted = {name: everything[name] for name in options.rows or everything}
    found: dict[str, list[float | str]] = {}
    for row, composition, cell in compare(options.out.absolute(), wanted, COMPOSITIONS):
        found.setdefault(row, []).append(cell)
        shown = cell if isinstance(cell, str) else f"{cell:.1e}"
        print(f"{row:26} {composition.model:8} {composition.name:40} {shown}", flush=True)
    print(summary(found))
    if options.write is not None:
        options.write.write_text(page(found))
    sys.exit(any(wrong(cell) for cells in found.values() for cell in cells))


def wrong(cell: float | str) -> bool:
    """Return whether a cell differs from one process."""
    return not isinstance(cell, str) and not cell <= TOLERANCE


def summary(found: dict[str, list[float | str]]) -> str:
    """Return how many cells are equal, rejected and different, as a sentence."""
    cells = [cell for own in found.values() for cell in own]
    different = sum(map(wrong, cells))
    rejected = sum(isinstance(cell, str) for cell in cells)
    equal = len(cells) - different - rejected
    return f"{len(cells)} cells: {equal} equal, {rejected} rejected, {different} different."


HEAD = f"""# Compositions

Every loss under divisions of a batch of ten examples, against one process that embeds it at once: five steps
on the generated language, from a short run of InfoNCE, float32, gloo on a CPU. A number is the largest
difference of the gradients of all steps (before clipping) and of the weights after the last one, relative to
the largest entry; at most {TOLERANCE:.0e} counts as equal. *BERT*: two small layers and a projection, all of
whose weights train; *dropout*: the same with `trainer.dropout=example`; *NF4*: a small Mistral in 4 bit with
LoRA. `make compositions` writes this page.
"""
"""Text above the table of the documentation."""


def page(found: dict[str, list[float | str]]) -> str:
    """Return the table of the documentation, in Markdown."""
    names = " | ".join(f"{composition.model}: {composition.name}" for composition in COMPOSITIONS)
    lines = [HEAD, summary(found), "", f"| loss | {names} |"]
    lines.append("|---" * (len(COMPOSITIONS) + 1) + "|")
    reasons: list[str] = []
    for row, cells in found.items():
        shown = []
        for cell in cells:
            if isinstance(cell, str):
                reasons += [] if cell in reasons else [cell]
                shown.append(f"rejected ({reasons.index(cell) + 1})")
            else:
                shown.append(f"{cell:.0e}")
        lines.append(f"| {row} | {' | '.join(shown)} |")
    notes = [f"{number}. {one_line(reason)}" for number, reason in enumerate(reasons, 1)]
    return "\n".join([*lines, "", *notes]) + "\n"


if __name__ == "__main__":
    main()

"""Train MiniLM on 100 to 10,000 rows, and rank queries that no run has seen: how many pairs are enough?

Two data sets of the data root: Banking77, texts with one of 77 intents, and NLI, a premise with a text that
follows from it and one that contradicts it. Each seed draws other rows. Runs that are stored in the output
are not repeated, so a stopped command goes on. ``--table`` prints what is stored, and ``--plot`` draws it.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import sts_lightning
from sts_lightning.core.files import write_atomic
from sts_lightning.data.ranking import Ranking, make_ranking, rank_classes
from sts_lightning.evaluation.retrieval import encode_ranking
from sts_lightning.evaluation.statistics import paired_difference
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.runs.metrics import environment
from sts_lightning.runs.predictions import SELECTS
from sts_lightning.workflows.plots import new_figure, save_figure

EPOCHS = {100: 10, 300: 8, 1000: 4, 3000: 2, 10_000: 1}
"""Epochs by number of rows."""

TEST_ROWS = 2000
"""Rows of NLI whose premises are ranked for."""

UNTUNED = "untuned"


@dataclass(frozen=True)
class Task:
    """Rows to draw from, and what is ranked.

    Attributes:
        data: Choice of the configuration group.
        header: Names of the columns.
        rows: Rows that train.
        test: Queries that no run sees.
    """

    data: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    test: Ranking


def read(path: Path, *columns: str) -> list[tuple[str, ...]]:
    """Return columns of a CSV file."""
    with path.open(newline="", encoding="utf-8") as file:
        return [tuple(row[name] for name in columns) for row in csv.DictReader(file)]


def tasks(root: Path) -> dict[str, Task]:
    """Read both data sets."""
    train, test = (read(root / "banking77" / f"{name}.csv", "text", "category") for name in ("train", "test"))
    labelled, among = ([(text, label) for text, label in rows] for rows in (test, train))
    intents = rank_classes("banking77", labelled, root, among)
    rows = read(root / "nli" / "nli_triplets.csv", "sent0", "sent1", "hard_neg")
    random.Random(0).shuffle(rows)
    held = {row[0] for row in rows[:TEST_ROWS]}
    nli = make_ranking("nli", [(row[0], [row[1]], [row[2]]) for row in rows[:TEST_ROWS]])
    left = [row for row in rows[TEST_ROWS:] if row[0] not in held]
    return {
        "banking77": Task("labels_file", ("text", "label"), train, intents),
        "nli": Task("triplets_file", ("anchor", "positive", "negative"), left, nli),
    }


def ranks(encoder: SentenceEncoder, test: Ranking) -> list[float]:
    """Return the reciprocal rank of each query."""
    found = encode_ranking(encoder.encode, test)
    return [round(value, 6) for value in found[SELECTS].tolist()]


def trained(task: Task, size: int, seed: int, root: Path, folder: Path) -> SentenceEncoder:
    """Train on rows that the seed draws, and return the selected weights."""
    drawn = random.Random(seed).sample(list(task.rows), min(size, len(task.rows)))
    path = folder / "rows.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([task.header, *drawn])
    settings = {
        "data_root": root,
        "data.batch_size": 64,
        "data.dev_candidates": 1000,  # of the runs' own selection; the test ranks all
        "trainer.max_epochs": EPOCHS[size],
        "evaluation.final": False,
    }
    run = sts_lightning.train(
        model="minilm",
        loss="infonce",
        data=task.data,
        path=path,
        seed=seed,
        settings=settings,
        folder=folder / "run",
    )
    return sts_lightning.load(run.path)


def table(stored: dict[str, Any]) -> None:
    """Print the mean MRR@10 of each size, and the gain over the untuned model with its interval."""
    for name, cells in stored["scores"].items():
        untuned = {"test": {SELECTS: np.array(cells[UNTUNED]["0"])}}
        print(f"{name}: untuned {100 * untuned['test'][SELECTS].mean():.2f}")
        for size, seeds in cells.items():
            if size != UNTUNED:
                found = [{"test": {SELECTS: np.array(values)}} for values in seeds.values()]
                means = [100 * each["test"][SELECTS].mean() for each in found]
                gain = paired_difference(found, [untuned])["test"]
                each = ", ".join(f"{mean:.2f}" for mean in means)
                print(f"{int(size):>6} rows: {np.mean(means):.2f} ({each}), gain {gain}")


def plot(stored: dict[str, Any], path: Path) -> None:
    """Draw the mean MRR@10 of each size, and each seed as a dot."""
    figure = new_figure(8, 3.6)
    for axis, (name, cells) in zip(
        figure.subplots(1, len(stored["scores"])), stored["scores"].items(), strict=True
    ):
        means = {
            int(size): [100 * np.mean(values) for values in seeds.values()]
            for size, seeds in cells.items()
            if size != UNTUNED
        }
        axis.plot(list(means), [np.mean(each) for each in means.values()], marker="o", markersize=4)
        for size, each in means.items():
            axis.scatter([size] * len(each), each, s=10, color="tab:gray", zorder=3)
        axis.axhline(100 * np.mean(cells[UNTUNED]["0"]), color="tab:orange", linestyle="--", label=UNTUNED)
        axis.set(xscale="log", xlabel="rows", ylabel="MRR@10 x 100", title=name)
        axis.set_xticks(list(means), [f"{size:,}" for size in means])
        axis.minorticks_off()
        axis.grid(alpha=0.25)
        axis.legend(loc="lower right")
    save_figure(figure, path)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path, help="data root")
    parser.add_argument("to", type=Path, help="JSON file")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--sets", nargs="+", default=["banking77", "nli"], help="data sets")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="draw what is stored")
    options = parser.parse_args()
    stored: dict[str, Any] = {"scores": {}}
    if options.to.exists():
        stored = json.loads(options.to.read_text())
    if options.plot:
        plot(stored, options.plot)
    if not (options.table or options.plot):
        stored["environment"] = environment()
        found = {name: task for name, task in tasks(options.root).items() if name in options.sets}
        cells: list[tuple[Any, int]] = [
            (UNTUNED, 0),
            *((size, seed) for size in EPOCHS for seed in options.seeds),
        ]
        for size, seed in cells:
            for name, task in found.items():
                scores = stored["scores"].setdefault(name, {}).setdefault(str(size), {})
                if str(seed) in scores:
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    encoder = (
                        sts_lightning.load("sentence-transformers/all-MiniLM-L6-v2")
                        if size == UNTUNED
                        else trained(task, size, seed, options.root.resolve(), Path(folder))
                    )
                    scores[str(seed)] = ranks(encoder, task.test)
                write_atomic(options.to, json.dumps(stored) + "\n")
                print(name, size, seed, f"{100 * np.mean(scores[str(seed)]):.2f}", flush=True)
    table(stored)


if __name__ == "__main__":
    main()

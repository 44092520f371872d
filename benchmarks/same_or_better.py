"""Count how often the verdict finds a difference where there is none.

Three times twenty runs of MiniLM on 800 texts of Banking77, judged by 400 other ones:

seeds: runs that differ by their seed alone, each compared with the next.
answers: runs on pairs of texts of an intent, drawn anew for each run; compared likewise.
nothing: runs on pairs that are drawn across intents, so that there is nothing to learn; each compared with
the untuned model, as a run ends. ``better`` would be wrong, also since the best of several steps is selected.

A verdict with 95 % intervals may be ``better`` in one of twenty. Runs that are stored are not repeated.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from how_many_pairs import read

import sts_lightning
from sts_lightning.core.files import write_atomic
from sts_lightning.evaluation.verdict import compare_found
from sts_lightning.runs.metrics import environment
from sts_lightning.runs.predictions import SELECTS, load_dev

ROWS, HELD_OUT, RUNS = 800, 400, 20


def write(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> Path:
    """Write a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def pairs(texts: Sequence[tuple[str, ...]], seed: int, within: bool) -> list[tuple[str, str]]:
    """Pair each text with another, of its intent or of any."""
    draw = random.Random(seed)
    found = []
    for text, intent in texts:
        others = [other for other, of in texts if other != text and (of == intent or not within)]
        if others:
            found.append((text, draw.choice(others)))
    return found


def run(kind: str, number: int, texts: Sequence[tuple[str, ...]], dev: Path, folder: Path) -> dict[str, Any]:
    """Train once, and return what the untuned and the selected weights give for each held-out query."""
    if kind == "seeds":
        data, path = "labels_file", write(folder / "rows.csv", ("text", "label"), texts)
    else:
        drawn = pairs(texts, number, within=kind == "answers")
        data, path = "triplets_file", write(folder / "rows.csv", ("anchor", "positive"), drawn)
    trained = sts_lightning.train(
        model="minilm",
        loss="infonce",
        data=data,
        path=path,
        seed=number if kind == "seeds" else 1,
        settings={
            "data.dev_path": dev,
            "data.batch_size": 64,
            "trainer.max_epochs": 2,
            "trainer.val_every": 13,  # once in an epoch
            "evaluation.final": False,
        },
        folder=folder / "run",
    )
    found = load_dev(trained)
    return {name: each[SELECTS].tolist() for name, (_, each) in found.items() if isinstance(each, dict)}


def count(kind: str, stored: Sequence[dict[str, Any]]) -> Counter[str]:
    """Count the verdicts."""
    found: Counter[str] = Counter()
    for one, other in zip(stored, [*stored[1:], stored[0]], strict=True):
        before = one["untuned"] if kind == "nothing" else one["selected"]
        after = one["selected"] if kind == "nothing" else other["selected"]
        found[compare_found({SELECTS: np.array(before)}, {SELECTS: np.array(after)})["verdict"]] += 1
    return found


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("root", type=Path, help="data root")
    parser.add_argument("to", type=Path, help="JSON file")
    options = parser.parse_args()
    stored: dict[str, Any] = json.loads(options.to.read_text()) if options.to.exists() else {}
    stored["environment"] = environment()
    rows = read(options.root / "banking77" / "train.csv", "text", "category")
    random.Random(0).shuffle(rows)
    for kind in ("seeds", "answers", "nothing"):
        done = stored.setdefault(kind, [])
        while len(done) < RUNS:
            with tempfile.TemporaryDirectory() as name:
                dev = write(Path(name) / "held_out.csv", ("text", "label"), rows[ROWS : ROWS + HELD_OUT])
                done.append(run(kind, len(done) + 1, rows[:ROWS], dev, Path(name)))
            write_atomic(options.to, json.dumps(stored) + "\n")
        scores = [100 * float(np.mean(each["selected"])) for each in done]
        words = ", ".join(f"{word}: {number}" for word, number in sorted(count(kind, done).items()))
        print(f"{kind}: {words}; MRR@10 {np.mean(scores):.2f} ± {np.std(scores, ddof=1):.2f}", flush=True)


if __name__ == "__main__":
    main()

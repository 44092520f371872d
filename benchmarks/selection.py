"""How well dev scores choose among runs: `make bench-selection`, or this script on a folder of runs.

`make bench-selection` fine-tunes MiniLM for some tens of steps with many losses and learning rates, with
`dev=suite`, so that no dev pair is trained on. This script compares three dev scores with the average of the
seven test sets: the suite, its pairs of STS-B dev, and all of STS-B dev, three quarters of whose pairs are in
the test sets. It prints the correlation of the orders that they give the runs, and the regret: the best
average less that of the run with the best dev score. Intervals are percentiles of bootstrap samples of the
runs. Re-running the command skips finished runs and resumes interrupted ones.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from scipy import stats

import sts_lightning
from sts_lightning.data.fetch.hints import default_root
from sts_lightning.data.pair_tables import gold_of, values_of
from sts_lightning.data.readers.senteval import load_stsb
from sts_lightning.errors import CheckpointError, UserError
from sts_lightning.evaluation.correlation import correlate
from sts_lightning.evaluation.similarity import score_pairs
from sts_lightning.files import write_atomic
from sts_lightning.runs.folder import RunFolder

CHOICES = ("suite", "STS-B dev, clean pairs", "STS-B dev")


def main() -> None:
    """Score the runs of a folder, and print how well each dev score chooses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder of the runs")
    parser.add_argument("--resamples", type=int, default=2000, help="default: %(default)s")
    parser.add_argument(
        "--above",
        type=float,
        help="also compare the runs with a higher average alone, say that before training",
    )
    options = parser.parse_args()
    rows = []
    try:
        for path in sorted(options.folder.glob("*/metrics.json")):
            rows.append(scores_of(path.parent))
            print(" ".join(f"{value:7.2f}" for value in rows[-1]), path.parent.name, flush=True)
    except UserError as error:
        parser.error(str(error))
    if len(rows) < 3:
        parser.error(f"{options.folder} has {len(rows)} finished runs; an order to compare needs at least 3.")
    print(f"columns: {', '.join(CHOICES)}, average of the seven test sets")
    scores = np.array(rows)
    report(scores, options.resamples)
    if options.above is not None:
        report(scores[scores[:, -1] > options.above], options.resamples)


def scores_of(run: Path) -> tuple[float, float, float, float]:
    """Return a run's score of each of `CHOICES` and its average of the seven test sets, times 100.

    Raises:
        CheckpointError: The run's results are broken, or lack the suite's parts or the test sets.
    """
    metrics = RunFolder(run).metrics()
    if metrics.dev is None or "parts" not in metrics.dev or metrics.test is None:
        raise CheckpointError(
            f"{run / 'metrics.json'} lacks dev.parts or test;",
            hint="train with dev=suite and without evaluation.final=false.",
        )
    parts = metrics.dev["parts"]
    return metrics.dev["spearman"], parts["stsb"]["spearman"], whole_dev(run), metrics.test["average"]


def whole_dev(run: Path) -> float:
    """Return Spearman times 100 on all of STS-B dev, which is kept in a file of the run's folder."""
    kept = run / "stsb_dev.json"
    if not kept.is_file():
        dev = load_stsb(default_root(), "dev")
        cosines = score_pairs(
            sts_lightning.load(run), values_of(dev, "sentence1"), values_of(dev, "sentence2")
        )
        write_atomic(kept, json.dumps(correlate(cosines, gold_of([dev]))) + "\n")
    return float(json.loads(kept.read_text())["spearman"])


def report(scores: np.ndarray, resamples: int) -> None:
    """Print rank correlation and regret of each choice, and their differences from STS-B dev.

    Args:
        scores: Dev scores and the test average of each run, (runs, choices + 1).
        resamples: Number of bootstrap samples.
    """
    rng = np.random.default_rng(0)
    drawn = [scores[rng.integers(len(scores), size=len(scores))] for _ in range(resamples)]
    found = figures(scores)
    spread = np.array([figures(sample) for sample in drawn])
    print(f"{len(scores)} runs")
    for row, name in enumerate(CHOICES):
        for column, what in enumerate(("rank correlation", "regret")):
            print(f"{name}: {what} {_shown(found[row, column], spread[:, row, column])}")
    for column, what in enumerate(("rank correlation", "regret")):
        difference = spread[:, 0, column] - spread[:, -1, column]
        print(f"suite less STS-B dev: {what} {_shown(found[0, column] - found[-1, column], difference)}")


def figures(scores: np.ndarray) -> np.ndarray:
    """Return rank correlation and regret, the best average less that of the chosen run: (choices, 2)."""
    average = scores[:, -1]
    return np.array(
        [
            (stats.spearmanr(own, average).statistic, average.max() - average[own.argmax()])
            for own in scores[:, :-1].T
        ]
    )


def _shown(value: float, sample: np.ndarray) -> str:
    low, high = np.nanpercentile(sample, [2.5, 97.5])
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    main()

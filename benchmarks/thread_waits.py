"""What waiting threads cost on a CPU: `python benchmarks/thread_waits.py`.

Short runs of train.py on generated pairs, alone and two at once, each with a thread for every core: with the
waits that every command sets, and with the 300,000 turns of GNU's OpenMP. Prints steps per second of a run;
of two at once, of the slower one. Only on Linux.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from sts_lightning.thread_waits import SPINS, TURNS

TRAIN = Path(__file__).parents[1] / "train.py"
DEFAULT = 300_000
"""GNU's own number of turns."""


def steps_per_second(options: argparse.Namespace, turns: int, at_once: int) -> float:
    """Return the speed of the slowest of several runs at once."""
    how = [f"model={options.model}", "data=toy", "logger=csv", f"precision={options.precision}", "dev=stsb"]
    how += [f"trainer.{key}={options.steps}" for key in ("max_steps", "val_every")]
    how += [f"trainer.log_every_n_steps={options.steps // 2}"]
    how += ["evaluation.final=false", "evaluation.untuned=false"]
    environment = os.environ | {SPINS: str(turns)}
    for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY"):
        environment.pop(name, None)
    with tempfile.TemporaryDirectory() as folder:
        runs = [Path(folder) / str(number) for number in range(at_once)]
        started = [
            subprocess.Popen(
                [sys.executable, TRAIN, *how, f"hydra.run.dir={run}"],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for run in runs
        ]
        if any(process.wait() for process in started):
            raise SystemExit(f"a run failed: {' '.join(how)}")
        rows = [list(csv.DictReader((run / "history.csv").open())) for run in runs]
    return min(
        float([row for row in found if row["steps_per_second"]][-1]["steps_per_second"]) for found in rows
    )


def main() -> None:
    """Time the runs in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="minilm", help="default: %(default)s")
    parser.add_argument("--precision", default="32-true", help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--turns", type=int, default=2, help="default: %(default)s")
    options = parser.parse_args()
    for at_once in (1, 2):
        for _ in range(options.turns):
            short, usual = (steps_per_second(options, turns, at_once) for turns in (TURNS, DEFAULT))
            print(
                f"{at_once} at once: {short:.2f} against {usual:.2f} steps/s, {short / usual:.2f}", flush=True
            )


if __name__ == "__main__":
    main()

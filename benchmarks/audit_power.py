"""Power and false alarms of `sts-lightning audit`: `make bench-audit`, or this script on a folder of runs.

`make bench-audit` fine-tunes MiniLM for a hundred steps, half of the runs with `data.filter=none` (on
test pairs) and half with `data.filter=exact` (without them), audits each, and prints how often it says "a
sign of leaks": the power and the rate of false alarms, with exact binomial intervals. Re-running the
command skips finished runs and resumes interrupted ones. Each run is audited three times: against the overlap
of words, against MiniLM before training, and against the first run without test pairs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy import stats

from sts_lightning.cli.audit import ALARM
from sts_lightning.data.fetch.hints import default_root
from sts_lightning.data.leaked_rows import published_leaks
from sts_lightning.data.readers.senteval import load_sts_tasks
from sts_lightning.evaluation.audit import audit, audited_pairs
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.audit import read_similarities

START = "start"
"""Subfolder with the evaluation of the model before training."""


def main() -> None:
    """Audit the runs of a folder, and print the rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder of the runs, with the untuned model in `start`")
    parser.add_argument("--resamples", type=int, default=2000, help="default: %(default)s")
    options = parser.parse_args()
    tasks = load_sts_tasks(default_root())
    pairs = audited_pairs(tasks, published_leaks())

    def scores(run: Path) -> np.ndarray:
        return np.concatenate([cosines for cosines, _ in read_similarities(str(run), tasks).values()])

    runs = {
        path: RunFolder(path).load_config().data.filter
        for path in sorted(options.folder.iterdir())
        if path.name != START and RunFolder(path).predictions_file.is_file()
    }
    first_clean = next(run for run, training in runs.items() if training == "exact")
    references = {
        "word overlap": pairs.overlap,
        "before training": scores(options.folder / START),
        "a clean run": scores(first_clean),
    }
    found: dict[tuple[str, str], list[bool]] = {}
    for run, training in runs.items():
        own = scores(run)
        for name, reference in references.items():
            if run == first_clean and name == "a clean run":
                continue
            whole = audit(own, reference, pairs, options.resamples).whole
            assert whole is not None
            found.setdefault((training, name), []).append(whole.p_value <= ALARM)
            size = f"{whole.estimate:+.4f} [{whole.low:+.4f}, {whole.high:+.4f}] p = {whole.p_value:.4f}"
            print(f"filter={training:6} against {name:16} {size}  {run.name}", flush=True)
    for (training, name), alarms in sorted(found.items()):
        interval = stats.binomtest(sum(alarms), len(alarms)).proportion_ci(0.95)
        what = "power" if training == "none" else "false alarms"
        print(
            f"{what} against {name}: {sum(alarms)} of {len(alarms)} runs with filter={training}, "
            f"{np.mean(alarms):.0%} [{interval.low:.0%}, {interval.high:.0%}]"
        )


if __name__ == "__main__":
    main()

"""`sts-lightning seeds`: mean and standard deviation of the scores of several runs."""

from __future__ import annotations

import argparse
import logging
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sts_lightning.cli.arguments import Commands
from sts_lightning.console import print_scores
from sts_lightning.errors import UserError

if TYPE_CHECKING:
    from sts_lightning.runs.folder import RunFolder

log = logging.getLogger(__name__)


def add_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the program."""
    parser = commands.add_parser("seeds", help="scores of several runs, their mean and standard deviation")
    parser.add_argument("runs", metavar="RUN", type=Path, nargs="+", help="run folders; files are ignored")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the scores of runs, their mean and their standard deviation."""
    from sts_lightning.data.files import short_names  # --help does not wait for these
    from sts_lightning.reproduce.collect import evaluation_text
    from sts_lightning.runs.folder import RunFolder, check_distinct

    runs = [folder for folder in options.runs if not folder.is_file()]
    if len(runs) < 2:
        raise UserError("name at least two run folders.")
    check_distinct(runs)
    names = short_names(map(str, runs))
    names |= {path: str(Path(path).resolve()) for path, name in names.items() if name in ("mean", "std")}
    found = {names[str(folder)]: RunFolder(folder).last_stage().metrics() for folder in runs}
    rows = {name: metrics.scores for name, metrics in found.items()}
    if len({frozenset(row) for row in rows.values()}) > 1:
        tasks = "; ".join(f"{name}: {', '.join(row)}" for name, row in rows.items())
        raise UserError(f"the runs were reported on different tasks ({tasks}).")
    how = {name: f"aggregate={run.aggregate}, {evaluation_text(run.details)}" for name, run in found.items()}
    if len(set(how.values())) > 1:
        ways = "; ".join(f"{name}: {way}" for name, way in how.items())
        raise UserError(
            f"the runs were evaluated differently ({ways}).", hint="Evaluate them alike with eval.py."
        )
    _warn_of_repeats({names[str(folder)]: RunFolder(folder).last_stage() for folder in runs})
    print_scores("Spearman x 100 by run", rows | summarise(list(rows.values())))


def _warn_of_repeats(runs: Mapping[str, RunFolder]) -> None:
    """Say which runs have one seed: repeats of a run, which deviate less than runs of several seeds."""
    names: dict[object, list[str]] = {}
    for name, run in runs.items():
        seed = run.complete_settings().get("seed") if run.config_file.is_file() else None
        if seed is not None:
            names.setdefault(seed, []).append(name)
    for seed, of_seed in names.items():
        if len(of_seed) > 1:
            log.warning("WARNING: %s have the same seed, %s; std is over seeds.", " and ".join(of_seed), seed)


def summarise(rows: Sequence[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return mean and sample standard deviation of each score over at least two runs."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return {
        "mean": {name: statistics.mean(values) for name, values in columns.items()},
        "std": {name: statistics.stdev(values) for name, values in columns.items()},
    }

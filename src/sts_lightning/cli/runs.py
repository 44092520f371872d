"""`sts-lightning runs`: every run in a folder with its settings, scores and cost."""

from __future__ import annotations

import argparse
import csv
import io
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from sts_lightning.cli.arguments import Commands, add_runs_folder, reject_unused
from sts_lightning.counted import counted
from sts_lightning.errors import UserError
from sts_lightning.files import check_output, write_atomic

if TYPE_CHECKING:
    from sts_lightning.runs.listing import Group, ListedRun

log = logging.getLogger(__name__)


def add_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the program."""
    parser = commands.add_parser("runs", help="every run in a folder with its settings, scores and cost")
    add_runs_folder(parser)
    parser.add_argument(
        "--where",
        metavar="KEY=VALUE",
        nargs="+",
        default=[],
        help="runs with these settings alone, such as loss=PearsonLoss or optim.lr=5e-5",
    )
    parser.add_argument(
        "--sort", metavar="COLUMN", help="a score, minutes or GB; default: average, else dev, else the path"
    )
    parser.add_argument("--each", action="store_true", help="a row for each seed")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the table to a file")
    parser.add_argument(
        "--best", action="store_true", help="print the folder of the best run on dev, for scripts"
    )
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> None:
    """Print the runs in a folder, best first, or the path of the best one."""
    from sts_lightning.runs.listing import (  # --help does not wait for these
        find_runs,
        group_seeds,
        sort_column,
        sort_groups,
    )

    if options.best:
        reject_unused(options, ("sort", "each", "csv"), "with --best")
    check_output("--csv", options.csv)
    runs = [one for one in find_runs(options.folder) if _fits(one.settings, options.where)]
    if not runs:
        raise UserError(
            f"{options.folder} has no run{' with ' + ' '.join(options.where) if options.where else ''}."
        )
    if options.best:
        log.info("%s", _best(runs).folder.path)
        return
    groups = group_seeds(runs, options.each)
    scores = list(dict.fromkeys(name for one in runs if one.metrics for name in one.metrics.scores))
    scores.sort(key=lambda name: name not in ("dev", "average"))
    by = sort_column(options.sort, scores)
    groups = sort_groups(groups, by)
    if options.csv is not None:
        _write(options.csv, groups, scores)
    _print(groups, scores, options.folder)
    for one in runs:
        if one.problem:
            log.warning("WARNING: %s", one.problem)


def _fits(settings: Mapping[str, Any], conditions: Sequence[str]) -> bool:
    for condition in conditions:
        key, equals, value = condition.partition("=")
        if not equals:
            raise UserError(f"--where {condition}: expected KEY=VALUE, such as optim.lr=5e-5.")
        found = [settings[name] for name in (key, f"{key}._target_") if name in settings]
        if not any(_same(one, value) for one in found):
            return False
    return True


def _same(value: Any, text: str) -> bool:
    if isinstance(value, bool) or value is None:
        return str(value).lower() == text.lower().replace("null", "none")
    if isinstance(value, int | float):
        try:
            return float(value) == float(text)
        except ValueError:
            return False
    return str(value) == text or str(value).rpartition(".")[2] == text


def _best(runs: Sequence[ListedRun]) -> ListedRun:
    scored = [(one.metrics.scores["dev"], one) for one in runs if one.metrics and "dev" in one.metrics.scores]
    if not scored:
        raise UserError("no run has finished with a dev score.")
    kinds = sorted({str(_dev_pairs(one.settings)) for _, one in scored})
    if len(kinds) > 1:
        raise UserError(
            f"--best would compare scores on different dev pairs ({', '.join(kinds)}).",
            hint="Choose runs by --where, as in --where data.dev=stsb.",
        )
    return max(scored, key=lambda pair: pair[0])[1]


def _dev_pairs(settings: Mapping[str, Any]) -> object:
    """Return what decides the dev pairs of a run: a file, the choice ``dev``, or else the training data."""
    own = " ".join(str(settings[key]) for key in ("data._target_", "data.path") if settings.get(key))
    of_data = "stsb" if "data.root" in settings else own
    return settings.get("data.dev_path") or settings.get("data.dev") or of_data


def _print(groups: Sequence[Group], scores: Sequence[str], folder: Path) -> None:
    from sts_lightning.runs.listing import COST

    shown = [name for name in ("dev", "average", "rank") if name in scores] or list(scores[:1])
    table = Table(
        title=f"{counted(sum(len(group.runs) for group in groups), 'run')} in {folder}", title_justify="left"
    )
    for heading in (
        "run",
        "settings",
        "state" if any(g.state != "finished" for g in groups) else "",
        "seeds",
    ):
        if heading:
            table.add_column(heading, overflow="fold")
    for heading in (*shown, *COST):
        table.add_column(heading, justify="right", no_wrap=True)
    for group in groups:
        state = [group.state] if any(g.state != "finished" for g in groups) else []
        row = [group.name(folder), group.settings_text, *state, " ".join(map(str, group.seeds))]
        table.add_row(*row, *(group.cell(name) or "-" for name in (*shown, *COST)))
    width = None if Console().is_terminal else 160
    Console(width=width, markup=False, emoji=False).print(table)  # settings contain brackets


def _write(path: Path, groups: Sequence[Group], scores: Sequence[str]) -> None:
    from sts_lightning.runs.listing import COST

    keys = list(dict.fromkeys(key for group in groups for key in group.settings))
    columns = [*scores, *COST]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    heads = [head for name in columns for head in (name, f"{name} std")]
    writer.writerow(["run", "runs", "state", "seeds", *keys, *heads])
    for group in groups:
        cells = [cell for name in columns for cell in (group.mean(name), group.deviation(name))]
        settings = [group.settings.get(key, "") for key in keys]
        first = str(group.runs[0].folder.path)
        seeds = " ".join(map(str, group.seeds))
        writer.writerow([first, len(group.runs), group.state, seeds, *settings, *cells])
    write_atomic(path, text.getvalue())

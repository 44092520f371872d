"""`sts-lightning runs`: every run in a folder with its settings, scores and cost."""

from __future__ import annotations

import argparse
import csv
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from sts_lightning.cli.arguments import Commands, add_runs_folder
from sts_lightning.errors import UserError

if TYPE_CHECKING:
    from sts_lightning.runs.listing import Group, ListedRun

log = logging.getLogger(__name__)

COST = ("minutes", "GB")


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
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the runs in a folder, best first, or the path of the best one."""
    from sts_lightning.runs.listing import find_runs, group_seeds  # --help does not wait for it

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
    groups = _sorted(groups, options.sort, scores)
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
    return max(scored, key=lambda pair: pair[0])[1]


def _sorted(groups: Sequence[Group], column: str | None, scores: Sequence[str]) -> list[Group]:
    known = [*scores, *COST]
    if column is not None and column not in known:
        raise UserError(f"--sort {column}: no such column; there are {', '.join(known)}.")
    by = column or next((name for name in ("average", "dev") if name in scores), "dev")
    sign = 1 if by in COST else -1

    def place(group: Group) -> tuple[bool, float]:
        mean = group.mean(by)
        return mean is None, 0.0 if mean is None else sign * mean

    return sorted(groups, key=place)


def _print(groups: Sequence[Group], scores: Sequence[str], folder: Path) -> None:
    shown = [name for name in ("dev", "average", "rank") if name in scores] or list(scores[:1])
    table = Table(title=f"{sum(len(group.runs) for group in groups)} runs in {folder}", title_justify="left")
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
        path = group.runs[0].folder.path
        name = str(path.relative_to(folder)) if path != folder else str(path)
        state = [group.state] if any(g.state != "finished" for g in groups) else []
        row = [f"{name} +{len(group.runs) - 1}" if len(group.runs) > 1 else name, _settings(group), *state]
        table.add_row(
            *row, " ".join(map(str, group.seeds)), *(_cell(group, name) for name in (*shown, *COST))
        )
    Console(width=None if Console().is_terminal else 160).print(table)


def _settings(group: Group) -> str:
    return " ".join(f"{key}={_shown(value)}" for key, value in group.settings.items() if value != {})


def _shown(value: Any) -> str:
    """Return a value as it is written on the command line."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cell(group: Group, column: str) -> str:
    mean, deviation = group.mean(column), group.deviation(column)
    if mean is None:
        return "-"
    digits = 2 if column not in COST else 1
    spread = f" ± {deviation:.{digits}f}" if deviation is not None and column not in COST else ""
    return f"{mean:.{digits}f}{spread}"


def _write(path: Path, groups: Sequence[Group], scores: Sequence[str]) -> None:
    keys = list(dict.fromkeys(key for group in groups for key in group.settings))
    columns = [*scores, *COST]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        heads = [head for name in columns for head in (name, f"{name} std")]
        writer.writerow(["run", "runs", "state", "seeds", *keys, *heads])
        for group in groups:
            cells = [cell for name in columns for cell in (group.mean(name), group.deviation(name))]
            settings = [group.settings.get(key, "") for key in keys]
            first = str(group.runs[0].folder.path)
            writer.writerow(
                [first, len(group.runs), group.state, " ".join(map(str, group.seeds)), *settings, *cells]
            )

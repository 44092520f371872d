"""`sts-lightning runs`: list, compare, check and average finished runs."""

from __future__ import annotations

import csv
import io
import logging
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from omegaconf import OmegaConf
from rich.console import Console
from rich.table import Table

from sts_lightning.cli.options import FILE, RESAMPLES, TRUST, TRUST_REMOTE_CODE
from sts_lightning.config.build import takes
from sts_lightning.config.trust import Trust
from sts_lightning.core.console import print_scores
from sts_lightning.core.errors import CheckpointError, UserError
from sts_lightning.core.files import check_output, last_name, write_atomic
from sts_lightning.core.text import counted
from sts_lightning.data.files import short_names
from sts_lightning.reproduce.collect import evaluation_text
from sts_lightning.runs.folder import RunFolder, check_distinct
from sts_lightning.runs.listing import (
    COST,
    Group,
    ListedRun,
    find_runs,
    group_seeds,
    sort_groups,
)

if TYPE_CHECKING:
    from sts_lightning.evaluation.statistics import Interval

log = logging.getLogger(__name__)


@click.command("list")
@click.argument("folder", type=FILE, default="runs")
@click.option(
    "--where",
    metavar="KEY=VALUE",
    multiple=True,
    help="Runs with this setting alone, such as loss=PearsonLoss; may be given several times.",
)
@click.option(
    "--sort",
    metavar="COLUMN",
    help="A score, minutes or GB. Default: average, else dev, else the path.",
)
@click.option("--each", is_flag=True, help="A row for each seed.")
@click.option("--csv", "table", type=FILE, help="Write the table to a file.")
@click.option("--best", is_flag=True, help="Print the folder of the best run on dev alone, for scripts.")
def list_command(
    folder: Path, where: Sequence[str], sort: str | None, each: bool, table: Path | None, best: bool
) -> None:
    """List the runs in FOLDER, by default those in runs, best first."""
    check_output("--csv", table)
    runs = [one for one in find_runs(folder) if _fits(one.settings, where)]
    if not runs:
        raise UserError(f"{folder} has no run{' with ' + ' '.join(where) if where else ''}.")
    scores = list(dict.fromkeys(name for one in runs if one.metrics for name in one.metrics.scores))
    scores.sort(key=lambda name: name not in ("dev", "average"))
    groups = sort_groups(group_seeds(runs, each), sort, scores)
    if table is not None:
        _write(table, groups, scores)
    if best:
        log.info("%s", _best(runs).folder.path)
        return
    _print(groups, scores, folder)
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
    wanted = OmegaConf.from_dotlist([f"value={text}"]).value
    return bool(value == wanted) or str(value) == text or str(value).rpartition(".")[2] == text


def _best(runs: Sequence[ListedRun]) -> ListedRun:
    scored = [(one.metrics.scores["dev"], one) for one in runs if one.metrics and "dev" in one.metrics.scores]
    if not scored:
        raise UserError("no run has finished with a dev score.")
    kinds = sorted({str(_dev_pairs(one.settings)) for _, one in scored})
    if len(kinds) > 1:
        raise UserError(
            f"--best would compare scores on different dev pairs ({', '.join(kinds)}).",
            hint="Choose runs by --where, as in --where dev=stsb.",
        )
    return max(scored, key=lambda pair: pair[0])[1]


def _dev_pairs(settings: Mapping[str, Any]) -> object:
    """Return what decides the dev pairs of a run: a file, the choice ``dev``, or else the training data."""
    own = " ".join(str(settings[key]) for key in ("data._target_", "path") if settings.get(key))
    shared = settings.get("dev") if takes(settings.get("data._target_"), "dev") else own
    return settings.get("data.dev_path") or shared


def _print(groups: Sequence[Group], scores: Sequence[str], folder: Path) -> None:
    shown = [name for name in ("dev", "average", "rank") if name in scores] or list(scores[:1])
    table = Table(
        title=f"{counted(sum(len(group.runs) for group in groups), 'run')} in {folder}", title_justify="left"
    )
    all_finished = all(group.state == "finished" for group in groups)
    for heading in ("run", "settings", "seeds") if all_finished else ("run", "settings", "state", "seeds"):
        table.add_column(heading, overflow="fold")
    for heading in (*shown, *COST):
        table.add_column(heading, justify="right", no_wrap=True)
    for group in groups:
        state = [] if all_finished else [group.state]
        row = [group.name(folder), group.settings_text, *state, " ".join(map(str, group.seeds))]
        table.add_row(*row, *(group.cell(name) or "-" for name in (*shown, *COST)))
    width = None if Console().is_terminal else 160
    Console(width=width, markup=False, emoji=False).print(table)  # settings contain brackets


def _write(path: Path, groups: Sequence[Group], scores: Sequence[str]) -> None:
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


@click.command("compare")
@click.argument("runs", type=FILE, nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--to",
    "others",
    type=FILE,
    multiple=True,
    required=True,
    metavar="RUN",
    help="A run folder of the other system; may be given several times.",
)
@RESAMPLES
def compare_command(runs: Sequence[Path], others: Sequence[Path], resamples: int) -> None:
    """Print the scores of RUNs, those of the other system, and the differences, with 95 % intervals."""
    from sts_lightning.evaluation.statistics import compare  # takes longer than the other imports together

    check_distinct(runs)
    check_distinct(others, "--to")
    one, two, difference = compare(runs, others, resamples)
    table = Table(
        title="Spearman x 100 with 95 % intervals over test pairs; *: the interval excludes zero",
        caption="Seeds may vary more than test pairs: compare several runs of each system.",
    )
    for heading in ("", _name(runs), _name(others), "difference"):
        table.add_column(heading, justify="right" if heading else "left")
    for task, interval in difference.items():
        mark = " *" if interval.low > 0 or interval.high < 0 else "  "
        table.add_row(task, _unsigned(one[task]), _unsigned(two[task]), f"{interval}{mark}")
    width = None if Console().is_terminal else 120
    Console(width=width, markup=False, emoji=False).print(table)  # names may contain brackets


def _name(runs: Sequence[Path]) -> str:
    first = last_name(runs[0])
    return first if len(runs) == 1 else f"{first}, ... ({len(runs)} runs)"


def _unsigned(interval: Interval) -> str:
    return f"{interval.estimate:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


@click.command("check")
@click.argument("run", type=FILE)
@TRUST
@TRUST_REMOTE_CODE
def check_command(run: Path, trust: Sequence[str], trust_remote_code: bool) -> None:
    """Check that RUN is whole, fits its model and has the scores of its predictions.

    It is the folder of a run or an evaluation.
    """
    from sts_lightning.workflows.verify import verify  # loads torch

    outcomes = []
    for check in verify(RunFolder(run), Trust.of(trust, trust_remote_code)):
        log.info("%-12s %s: %s", check.outcome, check.name, check.text)
        outcomes.append(check.outcome)
    wrong = outcomes.count("wrong")
    if wrong:
        raise CheckpointError(f"{wrong} of {len(outcomes)} checks of {run} have failed.")


@click.command("mean")
@click.argument("runs", type=FILE, nargs=-1, required=True, metavar="RUN...")
def mean_command(runs: Sequence[Path]) -> None:
    """Print the scores of run folders, their mean and their standard deviation; files are left out."""
    folders = [folder for folder in runs if not folder.is_file()]
    if len(folders) < 2:
        raise UserError("name at least two run folders.")
    check_distinct(folders)
    names = short_names(map(str, folders))
    names |= {path: str(Path(path).resolve()) for path, name in names.items() if name in ("mean", "std")}
    found = {names[str(folder)]: RunFolder(folder).last_stage() for folder in folders}
    metrics = {name: run.metrics() for name, run in found.items()}
    rows = {name: one.scores for name, one in metrics.items()}
    if len({frozenset(row) for row in rows.values()}) > 1:
        tasks = "; ".join(f"{name}: {', '.join(row)}" for name, row in rows.items())
        raise UserError(f"the runs were reported on different tasks ({tasks}).")
    how = {
        name: f"aggregate={one.aggregate}, {evaluation_text(one.details)}" for name, one in metrics.items()
    }
    if len(set(how.values())) > 1:
        ways = "; ".join(f"{name}: {way}" for name, way in how.items())
        raise UserError(
            f"the runs were evaluated differently ({ways}).", hint="Evaluate them alike with eval.py."
        )
    _warn_of_repeats(found)
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

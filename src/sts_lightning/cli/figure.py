"""`sts-lightning figure`: draw a figure of a paper from finished runs."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sts_lightning.cli.arguments import Commands, reject_unused
from sts_lightning.entry_points import typed_here
from sts_lightning.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sts_lightning.workflows.figure_list import FigureSpec
    from sts_lightning.workflows.figure_runs import FigureRun

log = logging.getLogger(__name__)


def add_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the program."""
    parser = commands.add_parser("figure", help="draw a figure of a paper from finished runs")
    parser.add_argument("name", nargs="?", help="the figure; default: list them")
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--runs", nargs="+", type=Path, metavar="FOLDER", help="run folders; files are ignored"
    )
    source.add_argument("--table", help="the runs of this file of conf/reproduce")
    parser.add_argument("--model", help="with --table: at the scale of conf/reproduce/scale/MODEL.yaml")
    parser.add_argument("--rows", nargs="+", metavar="ROW", help="with --table: its rows; default: all")
    parser.add_argument(
        "--on",
        choices=("test", "dev"),
        default="test",
        help="sentences whose rank and score are drawn by rank_figure1 and 6; default: %(default)s",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("runs/reproduce"),
        help="folder of the runs of all tables; default: %(default)s",
    )
    parser.add_argument("--to", type=Path, metavar="FILE.png", help="default: figures/NAME.png in --folder")
    parser.add_argument(
        "--trust",
        nargs="+",
        default=[],
        metavar="NAME",
        help="further classes and settings that the folders of --runs may use",
    )
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> None:
    """List the figures, or draw one."""
    if options.name is None:
        reject_unused(
            options,
            ("to", "runs", "table", "rows", "model", "on", "folder", "trust"),
            "without the name of a figure",
            "sts-lightning figure lists them.",
        )
        list_figures()
        return
    from sts_lightning.analysis.plots import save_figure  # --help does not wait for it

    path = options.to or options.folder / "figures" / f"{options.name}.png"
    if path.suffix != ".png":
        raise ConfigError(f"--to must name a .png file, got {path}.", key="to")
    save_figure(make_figure(options), path)
    log.info("%s", path)


def list_figures() -> None:
    """Print the figures with what each needs and the commands that make it."""
    from rich.console import Console

    from sts_lightning.workflows.figure_list import FIGURES

    console = Console()
    for name, spec in FIGURES.items():
        console.print(f"{name:22}{spec.title}", markup=False, highlight=False, soft_wrap=True)
        for line in (f"needs {spec.needs}", *map(typed_here, spec.commands)):
            console.print(f"{'':22}{line}", style="dim", markup=False, highlight=False, soft_wrap=True)


def make_figure(options: argparse.Namespace) -> Figure:
    """Draw the figure that the options name.

    Raises:
        ConfigError: There is no such figure, or the options do not fit it.
        CheckpointError: A run is missing, or lacks what the figure shows.
    """
    from sts_lightning.workflows.figure_list import FIGURES

    spec = FIGURES.get(options.name)
    if spec is None:
        raise ConfigError(f"there is no figure {options.name}; there are: {', '.join(FIGURES)}.", key="name")
    _check(options, spec)

    from sts_lightning.config.trust import Trust
    from sts_lightning.runs.distinct import check_distinct
    from sts_lightning.runs.folder import RunFolder
    from sts_lightning.workflows import figures
    from sts_lightning.workflows.figure_runs import name_runs

    if options.runs is None and options.table is None:
        return figures.regression_figure2()
    if options.table is not None:
        return figures.OF_RUNS[options.name](*_of_table(options), options.on)
    trust = Trust.of(options.trust, False)
    paths = [path for path in options.runs if not path.is_file()]
    if not paths:
        raise CheckpointError("--runs names files only; name run folders.", key="runs")
    check_distinct(paths, "--runs")
    folders = [RunFolder(path) for path in paths]
    if spec.drawn_from == "evaluations":
        return figures.rank_figure4(folders, _source(paths), trust)
    return figures.OF_RUNS[options.name](name_runs(folders, trust), _source(paths), options.on)


def _check(options: argparse.Namespace, spec: FigureSpec) -> None:
    """Reject options that do not fit the figure."""
    if options.table is None:
        reject_unused(options, ("model", "rows"), "without --table")
    if options.runs is None:
        reject_unused(options, ("trust",), "without --runs")
    if options.table is None and options.to is not None:
        reject_unused(options, ("folder",), "with --to, without --table")
    if not spec.chooses_sentences:
        reject_unused(options, ("on",), "on this figure")
    given = options.runs is not None or options.table is not None
    if spec.drawn_from == "nothing" and given:
        raise ConfigError("this figure is drawn from no run; leave out --runs and --table.", key="runs")
    made = f"They are made by: {'; '.join(map(typed_here, spec.commands[:-1]))}"
    if spec.drawn_from == "evaluations" and options.table is not None:
        raise ConfigError(
            "this figure is drawn from evaluations, which --runs names.", key="table", hint=made
        )
    if spec.drawn_from != "nothing" and not given:
        how = "--runs names their folders" + (
            ", or --table the table that they are of" if spec.drawn_from == "runs" else ""
        )
        raise ConfigError(f"{options.name} needs {spec.needs}; {how}.", key="runs", hint=made)


def _source(paths: Sequence[Path]) -> str:
    """Return the names of a few folders, or the number of many and the folder that holds them."""
    if len(paths) <= 3:
        return ", ".join(str(path) for path in paths)
    return (
        f"{len(paths)} folders in {os.path.relpath(os.path.commonpath([path.absolute() for path in paths]))}"
    )


def _of_table(options: argparse.Namespace) -> tuple[list[FigureRun], str]:
    """Return the finished runs of a table, and the title of what is drawn.

    Raises:
        ConfigError: There is no such table or row.
        CheckpointError: A run has not finished.
    """
    from sts_lightning.reproduce.plan import open_table
    from sts_lightning.workflows.figure_runs import read_run

    table = open_table(options.table, options.model, options.folder)
    cells = [
        cell for cell in table.cells if table.spec.rows[cell.row].trains and table.spec.rows[cell.row].shown
    ]
    known = list(dict.fromkeys(cell.row for cell in cells))
    unknown = sorted(set(options.rows or ()) - set(known))
    if unknown:
        raise ConfigError(
            f"--rows: {unknown[0]} is not a trained row of {options.table}; there are: {'; '.join(known)}.",
            key="rows",
        )
    cells = [cell for cell in cells if not options.rows or cell.row in options.rows]
    several = len({cell.model for cell in cells}) > 1
    planned = [
        (f"{cell.row}, {cell.model}" if several else cell.row, run)
        for cell in cells
        for run in table.seed_runs(cell)
    ]
    missing = [run for _, run in planned if not run.done]
    if missing:
        command = f"sts-lightning reproduce {options.table}" + (
            f" --model {options.model}" if options.model else ""
        )
        raise CheckpointError(
            f"{len(missing)} of {len(planned)} runs have not finished, the first in {missing[0].folder}.",
            key="table",
            hint=f"{command} runs them; --rows draws some rows only.",
        )
    seeds = ", ".join(str(seed) for seed in table.run_seeds)
    models = ", ".join(dict.fromkeys(str(cell.model) for cell in cells if cell.model is not None))
    source = ", ".join(part for part in (options.table, models, f"seeds {seeds}") if part)
    return [read_run(run.run_folder, name, run.trust) for name, run in planned], source

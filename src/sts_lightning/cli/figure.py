"""`sts-lightning figure`: draw a figure of a paper from finished runs."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from sts_lightning.cli.arguments import Commands, reject_unused
from sts_lightning.entry_points import typed_here
from sts_lightning.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sts_lightning.workflows.figure_list import FigureSpec
    from sts_lightning.workflows.figures import FigureRun

log = logging.getLogger(__name__)


def add_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the program."""
    parser = commands.add_parser("figure", help="draw a figure of a paper from finished runs")
    parser.add_argument("name", nargs="?", help="the figure; default: list them")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--table", help="the runs of this file of conf/reproduce")
    source.add_argument(
        "--runs", nargs="+", type=Path, metavar="FOLDER", help="run folders, of rank_figure3 and 4"
    )
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
    from sts_lightning.runs.folder import RunFolder, check_distinct
    from sts_lightning.workflows import figures

    if spec.drawn_from == "nothing":
        return figures.regression_figure2()
    if spec.drawn_from == "table":
        return figures.OF_RUNS[options.name](*_of_table(options), options.on)
    trust = Trust.of(options.trust, False)
    paths = [path for path in options.runs if not path.is_file()]  # a sweep's folder has some, too
    check_distinct(paths, "--runs")
    folders, source = [RunFolder(path) for path in paths], ", ".join(map(str, paths))
    if spec.drawn_from == "evaluations":
        return figures.rank_figure4(folders, source, trust)
    return figures.OF_RUNS[options.name](figures.name_runs(folders, trust), source, options.on)


def _check(options: argparse.Namespace, spec: FigureSpec) -> None:
    """Reject options that do not fit the figure."""
    if spec.drawn_from != "table":
        reject_unused(options, ("table", "model", "rows"), "on this figure")
        if options.to is not None:
            reject_unused(options, ("folder",), "with --to, without --table")
    if spec.drawn_from not in ("runs", "evaluations"):
        reject_unused(options, ("runs", "trust"), "on this figure")
    if not spec.chooses_sentences:
        reject_unused(options, ("on",), "on this figure")
    source = "table" if spec.drawn_from == "table" else "runs"
    if spec.drawn_from != "nothing" and getattr(options, source) is None:
        raise ConfigError(
            f"{options.name} needs {spec.needs}; name them with --{source}.",
            key=source,
            hint=f"They are made by: {'; '.join(map(typed_here, spec.commands[:-1]))}",
        )


def _of_table(options: argparse.Namespace) -> tuple[list[FigureRun], str]:
    """Return the finished runs of a table, and the title of what is drawn.

    Raises:
        ConfigError: There is no such table or row.
        CheckpointError: A run has not finished.
    """
    from sts_lightning.reproduce.plan import open_table
    from sts_lightning.workflows.figures import read_run

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

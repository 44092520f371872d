"""`sts-lightning reproduce`: run a published table again and compare, draw a published figure."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from sts_lightning.cli.options import FILE, RESAMPLES, TRUST
from sts_lightning.config.trust import Trust
from sts_lightning.core.conf_folders import typed_here
from sts_lightning.core.errors import CheckpointError, ConfigError, UserError
from sts_lightning.reproduce.plan import open_table
from sts_lightning.reproduce.run import list_tables, open_launcher, print_plan, reproduce
from sts_lightning.reproduce.tables import write_report
from sts_lightning.runs.folder import RunFolder, check_distinct
from sts_lightning.workflows.figures import FIGURES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sts_lightning.workflows.figures import FigureRun, FigureSpec

log = logging.getLogger(__name__)


MODEL = click.option("--model", help="The rows at the scale of conf/reproduce/scale/MODEL.yaml.")
RUNS = click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default="runs/reproduce",
    show_default=True,
    help="Folder of the runs of all tables.",
)


def _of_a_table(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("table")(MODEL(RUNS(command)))


def _launched(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add how the runs are started."""
    jobs = click.option(
        "--jobs", type=click.IntRange(1), help="Jobs at a time. Default: one per GPU, or per two cores."
    )
    launcher = click.option(
        "--launcher",
        type=click.Choice(["process", "slurm", "ray"]),
        default="process",
        help="Default: processes of this machine.",
    )
    settings = click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="A setting of the launcher, such as partition=gpu; may be given several times.",
    )
    return jobs(launcher(settings(command)))


@click.command("list")
def list_command() -> None:
    """List the tables and the figures of the papers, and what each needs."""
    list_tables()
    _list_figures()


@click.command("plan")
@_of_a_table
@_launched
@click.option("--card", help="Card to plan for, as 24GB or rtx4090. Default: this machine.")
def plan_command(
    table: str,
    model: str | None,
    folder: Path,
    jobs: int | None,
    launcher: str,
    settings: Sequence[str],
    card: str | None,
) -> None:
    """Print the runs of TABLE, a file of conf/reproduce, with memory, steps and time."""
    planned = open_table(table, model, folder)
    open_launcher(planned, launcher, settings)  # a mistake in its settings is told first
    print_plan(planned, jobs, card)


@click.command("run")
@_of_a_table
@_launched
@RESAMPLES
def run_command(
    table: str,
    model: str | None,
    folder: Path,
    jobs: int | None,
    launcher: str,
    settings: Sequence[str],
    resamples: int,
) -> None:
    """Run what is left of TABLE, a file of conf/reproduce, and report it."""
    opened = open_table(table, model, folder)
    finished = reproduce(opened, launcher, [*([] if jobs is None else [f"jobs={jobs}"]), *settings])
    write_report(opened, table, resamples)
    if not finished:
        raise UserError(
            "some runs have not finished; the messages above name them.", hint="The same command continues."
        )


@click.command("report")
@_of_a_table
@RESAMPLES
def report_command(table: str, model: str | None, folder: Path, resamples: int) -> None:
    """Collect what has finished of TABLE, a file of conf/reproduce."""
    write_report(open_table(table, model, folder), table, resamples)


@click.command("figure")
@click.argument("name")
@click.argument("runs", type=FILE, nargs=-1, metavar="[RUN]...")
@click.option("--table", help="Draw the runs of this file of conf/reproduce.")
@MODEL
@click.option(
    "--row",
    "rows",
    multiple=True,
    help="With --table: one of its rows; may be given several times. Default: all.",
)
@click.option(
    "--on",
    type=click.Choice(["test", "dev"]),
    default="test",
    show_default=True,
    help="Sentences whose rank and score are drawn by rank_figure1 and 6.",
)
@RUNS
@click.option("--to", type=FILE, metavar="FILE.png", help="Default: figures/NAME.png in --folder.")
@TRUST
def figure_command(
    name: str,
    runs: Sequence[Path],
    table: str | None,
    model: str | None,
    rows: Sequence[str],
    on: Any,
    folder: Path,
    to: Path | None,
    trust: Sequence[str],
) -> None:
    """Draw the figure NAME from finished RUNs, which are run folders, or from those of a table.

    `sts-lightning reproduce list` shows the figures, and the commands that make each.
    """
    path = to or folder / "figures" / f"{name}.png"
    if path.suffix != ".png":
        raise ConfigError(f"--to must name a .png file, got {path}.", key="to")
    spec = FIGURES.get(name)
    if spec is None:
        raise ConfigError(f"there is no figure {name}; there are: {', '.join(FIGURES)}.", key="name")
    _check_figure(name, spec, bool(runs), table is not None)
    from sts_lightning.analysis.plots import save_figure  # matplotlib, which tables do not wait for
    from sts_lightning.workflows import figures

    drawn: Figure
    if spec.drawn_from == "nothing":
        drawn = figures.regression_figure2()
    elif table is not None:
        drawn = getattr(figures, name)(*_of_rows(table, model, rows, folder), on)
    else:
        drawn = _of_folders(name, spec, runs, on, Trust.of(trust, False))
    save_figure(drawn, path)
    log.info("%s", path)


def _list_figures() -> None:
    """Print the figures with what each needs and the commands that make it."""
    console = Console()
    for name, spec in FIGURES.items():
        console.print(f"{name:22}{spec.title}", markup=False, highlight=False, soft_wrap=True)
        for line in (f"needs {spec.needs}", *map(typed_here, spec.commands)):
            console.print(f"{'':22}{line}", style="dim", markup=False, highlight=False, soft_wrap=True)


def _check_figure(name: str, spec: FigureSpec, runs: bool, table: bool) -> None:
    """Reject runs that do not fit the figure."""
    source = {"nothing": "no run", "table": "the runs of a table, by --table"}
    drawn = source.get(spec.drawn_from, "run folders")
    if runs != (spec.drawn_from in ("runs", "evaluations")) or table != (spec.drawn_from == "table"):
        made = f"They are made by: {'; '.join(map(typed_here, spec.commands[:-1]))}"
        raise ConfigError(
            f"{name} is drawn from {drawn}; it needs {spec.needs}.",
            key="table" if spec.drawn_from == "table" else "runs",
            hint=None if spec.drawn_from == "nothing" else made,
        )


def _of_folders(name: str, spec: FigureSpec, runs: Sequence[Path], on: Any, trust: Trust) -> Figure:
    """Draw a figure from run folders, which a pattern may match beside files."""
    from sts_lightning.workflows import figures

    paths = [path for path in runs if not path.is_file()]
    if not paths:
        raise CheckpointError("these are files; name run folders.", key="runs")
    check_distinct(paths)
    folders = [RunFolder(path) for path in paths]
    source = ", ".join(str(path) for path in paths)
    if len(paths) > 3:
        above = os.path.relpath(os.path.commonpath([path.absolute() for path in paths]))
        source = f"{len(paths)} folders in {above}"
    if spec.drawn_from == "evaluations":
        return figures.rank_figure4(folders, source, trust)
    drawn: Figure = getattr(figures, name)(figures.name_runs(folders, trust), source, on)
    return drawn


def _of_rows(name: str, model: str | None, rows: Sequence[str], folder: Path) -> tuple[list[FigureRun], str]:
    """Return the finished runs of a table, and the title of what is drawn.

    Raises:
        ConfigError: There is no such table or row.
        CheckpointError: A run has not finished.
    """
    from sts_lightning.workflows.figures import read_run

    table = open_table(name, model, folder)
    cells = [
        cell for cell in table.cells if table.spec.rows[cell.row].trains and table.spec.rows[cell.row].shown
    ]
    known = list(dict.fromkeys(cell.row for cell in cells))
    unknown = sorted(set(rows) - set(known))
    if unknown:
        raise ConfigError(
            f"--row: {unknown[0]} is not a trained row of {name}; there are: {'; '.join(known)}.", key="rows"
        )
    cells = [cell for cell in cells if not rows or cell.row in rows]
    several = len({cell.model for cell in cells}) > 1
    planned = [
        (f"{cell.row}, {cell.model}" if several else cell.row, run)
        for cell in cells
        for run in table.seed_runs(cell)
    ]
    missing = [run for _, run in planned if not run.done]
    if missing:
        command = f"sts-lightning reproduce {name}" + (f" --model {model}" if model else "")
        raise CheckpointError(
            f"{len(missing)} of {len(planned)} runs have not finished, the first in {missing[0].folder}.",
            key="table",
            hint=f"{command} runs them; --row draws some rows only.",
        )
    seeds = ", ".join(str(seed) for seed in table.run_seeds)
    models = ", ".join(dict.fromkeys(str(cell.model) for cell in cells if cell.model is not None))
    source = ", ".join(part for part in (name, models, f"seeds {seeds}") if part)
    return [read_run(run.run_folder, row, run.trust) for row, run in planned], source

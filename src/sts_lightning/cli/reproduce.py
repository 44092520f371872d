"""`sts-lightning reproduce`: run a published table again and compare, draw a published figure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from sts_lightning.cli.options import FILE, RESAMPLES
from sts_lightning.core.errors import ConfigError
from sts_lightning.reproduce.plan import open_table
from sts_lightning.reproduce.run import list_tables, open_launcher, print_plan, reproduce

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
    from sts_lightning.reproduce.figures import list_figures  # matplotlib, which tables do not wait for

    list_tables()
    list_figures()


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
    chosen = settings if jobs is None else [f"jobs={jobs}", *settings]
    reproduce(table, model, folder, launcher, chosen, resamples)


@click.command("report")
@_of_a_table
@RESAMPLES
def report_command(table: str, model: str | None, folder: Path, resamples: int) -> None:
    """Collect what has finished of TABLE, a file of conf/reproduce."""
    from sts_lightning.reproduce.tables import write_report  # pandas and SciPy: not for a plan

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
def figure_command(
    name: str,
    runs: Sequence[Path],
    table: str | None,
    model: str | None,
    rows: Sequence[str],
    on: Any,
    folder: Path,
    to: Path | None,
) -> None:
    """Draw the figure NAME from finished RUNs, which are run folders, or from those of a table.

    `sts-lightning reproduce list` shows the figures, and the commands that make each.
    """
    path = to or folder / "figures" / f"{name}.png"
    if path.suffix != ".png":
        raise ConfigError(f"--to must name a .png file, got {path}.", key="to")
    from sts_lightning.analysis.plots import save_figure
    from sts_lightning.reproduce.figures import check_figure, draw_folders, draw_rows

    check_figure(name, bool(runs), table is not None)
    if table is not None:
        drawn = draw_rows(name, open_table(table, model, folder), table, rows, on)
    else:
        drawn = draw_folders(name, runs, on)
    save_figure(drawn, path)
    log.info("%s", path)

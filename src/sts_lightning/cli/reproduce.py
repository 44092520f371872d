"""`sts-lightning reproduce`: run a published table again, and compare."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from sts_lightning.cli.options import RESAMPLES
from sts_lightning.core.errors import ConfigError
from sts_lightning.reproduce.run import list_tables, open_launcher, print_plan, reproduce
from sts_lightning.reproduce.table import Table, open_table

FOLDER = click.Path(file_okay=False, path_type=Path)
LAUNCHERS = click.Choice(["process", "slurm", "ray"])


def _of_a_table(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command a table in place of the arguments that name it."""

    @click.argument("table")
    @click.option("--model", help="The rows at the scale of scale=MODEL.")
    @click.option("--folder", type=FOLDER, default="runs/reproduce", help="Folder of the runs of all tables.")
    @functools.wraps(command)
    def opened(table: str, model: str | None, folder: Path, **given: Any) -> None:
        command(open_table(table, model, folder), **given)

    return opened


def _launched(command: Callable[..., Any]) -> Callable[..., Any]:
    setting = "A setting of the launcher, such as partition=gpu; may be given several times."
    for option in (
        click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help=setting),
        click.option("--launcher", type=LAUNCHERS, default="process", help="Default: on this machine."),
        click.option("--jobs", type=click.IntRange(1), help="At a time. Default: one per GPU or two cores."),
    ):
        command = option(command)
    return command


@click.command("list")
def list_command() -> None:
    """List the tables of the papers, and what each needs."""
    list_tables()


@click.command("plan")
@_launched
@click.option("--card", help="Card to plan for, as 24GB or rtx4090. Default: this machine.")
@_of_a_table
def plan_command(
    table: Table, jobs: int | None, launcher: str, settings: Sequence[str], card: str | None
) -> None:
    """Print the runs of TABLE, a file of conf/reproduce, with memory, steps and time."""
    open_launcher(table, launcher, settings)  # a mistake in its settings is told first
    print_plan(table, jobs, card)


@click.command("run")
@_launched
@RESAMPLES
@_of_a_table
def run_command(
    table: Table, jobs: int | None, launcher: str, settings: Sequence[str], resamples: int
) -> None:
    """Run what is left of TABLE, a file of conf/reproduce, and report it."""
    chosen = settings if jobs is None else [f"jobs={jobs}", *settings]
    reproduce(table, launcher, chosen, resamples)


@click.command("report")
@RESAMPLES
@_of_a_table
def report_command(table: Table, resamples: int) -> None:
    """Collect what has finished of TABLE, a file of conf/reproduce."""
    from sts_lightning.reproduce.results import write_report  # pandas and SciPy: not for a plan

    write_report(table, resamples)


@click.command("figure", context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def figure_command(arguments: Sequence[str]) -> None:
    """Draw a figure of a paper: by a script now."""
    hint = "python examples/paper_figures.py FIGURE RUN...; --help lists them."
    raise ConfigError("figures are drawn by a script, from run folders.", hint=hint)

"""The tables, and the runs of one, printed."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from sts_lightning.conf_folders import command_line, files_of
from sts_lightning.config.compose import compose_train
from sts_lightning.errors import CheckpointError
from sts_lightning.reproduce.plan import VARYING, Planned, Table
from sts_lightning.reproduce.spec import CITED, RUNS, TableSpec, load_spec
from sts_lightning.sweep.plan import Cost, print_line, print_run
from sts_lightning.text import counted


def list_tables() -> None:
    """Print the tables with their runs, requirements and rows, run or cited."""
    for name, path in files_of("reproduce").items():
        spec = load_spec(path)
        cells = Table(spec, Path("runs")).cells
        count = sum(len(spec.seeds) if spec.rows[cell.row].trains else 1 for cell in cells)
        of = f" of {', '.join(spec.models)}" if spec.models else ""
        runs = f"{counted(count, 'run')}{of}; each: {spec.needs}"
        print_line(f"{name:22}{spec.title}")
        for line in (runs if count else "published values only", *_rows(spec)):
            print_line(f"{'':22}{line}", style="dim")
    scales = ", ".join(files_of("reproduce/scale"))
    print_line(
        "\nsts-lightning reproduce plan TABLE shows the runs, --model MODEL has the rows at a small "
        f"scale ({scales}).\n"
    )


def _rows(spec: TableSpec) -> list[str]:
    """Return the rows that run, then those that are cited, each with the reason."""
    runs = [name for name, row in spec.rows.items() if row.shown]
    cited = [f"{CITED}: {name} ({spec.why[name]})" for name in spec.published.get(CITED, {})]
    return [*([f"{RUNS}: {'; '.join(runs)}"] if runs else []), *cited]


def print_plan(table: Table, jobs: int | None, cost: Cost) -> None:
    """Print every run of a table with its state, then the cost of those of each row and the time of all.

    Args:
        table: Table to plan.
        jobs: Number of jobs at a time; None: one.
        cost: Function that says what a run costs.
    """
    planned: dict[Path, Planned] = {}
    for run in _planned(table):
        if planned.setdefault(run.folder, run) is run:
            print_run(run.run_folder, run.command, ())
    known: set[tuple[str, ...]] = set()
    for run in planned.values():
        fixed = tuple(text for text in run.overrides if text.partition("=")[0] not in VARYING)
        if run.entry == "train" and fixed not in known:  # the runs of a row cost the same
            known.add(fixed)
            print_line(command_line("train", *fixed))
            for name, cfg in compose_train(fixed).items():
                print_line(f"{'':10}{cost(cfg) if name == 'run' else f'{name}: {cost(cfg)}'}", style="dim")
    left = sum(not run.done for run in planned.values())
    hours, source = _hours(table, planned.values())
    at_once = 1 if jobs is None else jobs
    print_line(
        f"{counted(len(planned), 'run')}, {left} left; about {left * hours / at_once:.1f} hours, "
        f"{at_once} at a time ({60 * hours:.0f} minutes each, {source}). Each needs: {table.needs}."
    )
    if any(table.search_runs(cell) for cell in table.cells):
        print_line("Rows with a choice by dev score show their runs once that choice is made.")


def costs_on(card: str | None) -> Cost:
    """Return a function that says what a run costs. It imports torch when it is called, after the list.

    Args:
        card: Device by name or memory; None: the visible GPU, or none.

    Raises:
        ConfigError: The card is not known.
    """

    @cache
    def costs() -> Cost:
        from sts_lightning.planning.costs import Costs

        return Costs(card)

    if card is not None:
        costs()  # an unknown card is rejected before anything is printed
    return lambda cfg: costs()(cfg)


def _planned(table: Table) -> Iterator[Planned]:
    yield from table.preparations()
    for cell in (cell for cells in table.levels() for cell in cells):
        yield from table.search_runs(cell).values()
        with contextlib.suppress(CheckpointError):  # its search has not finished
            yield from table.seed_runs(cell)


def _hours(table: Table, planned: Iterable[Planned]) -> tuple[float, str]:
    """Return the hours of a run, measured if some have finished, else estimated, and their source."""
    seconds: list[float | None] = []
    for run in planned:
        if run.done:
            with contextlib.suppress(CheckpointError):  # collecting names it
                seconds.append(run.run_folder.metrics().wall_seconds)
    known = [value for value in seconds if value is not None]
    if known:
        return statistics.mean(known) / 3600, f"as {counted(len(known), 'finished run')} took"
    return table.needs.hours, "a guess"

"""The tables, and the runs of one, printed."""

from __future__ import annotations

from pathlib import Path

from sts_lightning.conf_folders import command_line, files_of
from sts_lightning.config.compose import compose_train
from sts_lightning.reproduce.plan import VARYING, Planned, Table
from sts_lightning.reproduce.run import groups
from sts_lightning.reproduce.spec import CITED, RUNS, load_spec
from sts_lightning.sweep.plan import print_line, print_run
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
        shown = "; ".join(name for name, row in spec.rows.items() if row.shown)
        cited = (f"{CITED}: {name} ({spec.why[name]})" for name in spec.published.get(CITED, {}))
        for line in (runs, f"{RUNS}: {shown}", *cited):
            print_line(f"{'':22}{line}", style="dim")
    scales = ", ".join(files_of("reproduce/scale"))
    print_line(
        "\nsts-lightning reproduce plan TABLE shows the runs, --model MODEL has the rows at a small "
        f"scale ({scales}).\n"
    )


def print_plan(table: Table, jobs: int | None, card: str | None) -> None:
    """Print every run of a table with its state, then the cost of those of each row and the time of all.

    Args:
        table: Table to plan.
        jobs: Number of jobs at a time; None: one.
        card: Card to plan for, by name or memory; None: this machine's.

    Raises:
        ConfigError: The card is not known.
    """
    planned: dict[Path, Planned] = {}
    for run in (run for group, _ in groups(table) for run in group):
        if planned.setdefault(run.folder, run) is run:
            print_run(run.run_folder, run.command, ())
    from sts_lightning.planning.costs import Costs  # with torch, for which the list does not wait

    cost = Costs(card)
    known: set[tuple[str, ...]] = set()
    for run in planned.values():
        fixed = tuple(text for text in run.overrides if text.partition("=")[0] not in VARYING)
        if run.entry == "train" and fixed not in known:  # the runs of a row cost the same
            known.add(fixed)
            print_line(command_line("train", *fixed))
            for name, cfg in compose_train(fixed).items():
                print_line(f"{'':10}{cost(cfg) if name == 'run' else f'{name}: {cost(cfg)}'}", style="dim")
    left = sum(not run.done for run in planned.values())
    hours = left * table.needs.hours / (jobs or 1)
    print_line(
        f"{counted(len(planned), 'run')}, {left} left; about {hours:.1f} hours, {jobs or 1} at a time. "
        f"Each needs: {table.needs}."
    )
    if any(table.search_runs(cell) for cell in table.cells):
        print_line("Rows with a choice by dev score show their runs once that choice is made.")

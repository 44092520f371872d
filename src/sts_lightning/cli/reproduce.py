"""`sts-lightning reproduce`: run a published table again and compare."""

from __future__ import annotations

import argparse
from pathlib import Path

from sts_lightning.cli.arguments import Commands, at_least, reject_unused
from sts_lightning.cli.figure import list_figures
from sts_lightning.errors import ConfigError, UserError


def add_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the program."""
    parser = commands.add_parser("reproduce", help="re-run a published table, and compare")
    parser.add_argument("table", nargs="?", help="a file of conf/reproduce; default: list them")
    parser.add_argument("--model", help="run the rows at the scale of conf/reproduce/scale/MODEL.yaml")
    parser.add_argument(
        "--plan", action="store_true", help="only print the runs, with memory, steps and time"
    )
    parser.add_argument(
        "--card", help="with --plan: card to plan for, as 24GB or rtx4090; default: the visible GPU, or none"
    )
    parser.add_argument("--report", action="store_true", help="only collect what has finished")
    parser.add_argument(
        "--jobs", type=at_least(1), help="number of jobs at a time; default: one per GPU, or per two cores"
    )
    parser.add_argument(
        "--launcher", choices=("process", "slurm", "ray"), default="process", help="default: this machine"
    )
    parser.add_argument(
        "--set",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="settings of the launcher, such as partition=gpu",
    )
    parser.add_argument(
        "--resamples", type=at_least(1), default=1000, help="bootstrap resamples; default: %(default)s"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("runs/reproduce"),
        help="folder of the runs of all tables; default: %(default)s",
    )
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> None:
    """List the tables and figures, or plan, run and report one."""
    _check(options)
    from sts_lightning.reproduce import listing, plan  # --help does not wait for these

    if options.table is None:
        listing.list_tables()
        list_figures()
        return
    table = plan.open_table(options.table, options.model, options.folder)
    from sts_lightning.reproduce import run as running

    settings = [*([] if options.jobs is None else [f"jobs={options.jobs}"]), *options.set]
    if options.plan:
        running.open_launcher(table, options.launcher, settings)
        listing.print_plan(table, options.jobs, listing.costs_on(options.card))
        return
    finished = options.report or running.reproduce(table, options.launcher, settings)
    from sts_lightning.reproduce.formats import write_report

    write_report(table, options.table, options.resamples)
    if not finished:
        raise UserError(
            "some runs have not finished; the messages above name them.", hint="The same command continues."
        )


def _check(options: argparse.Namespace) -> None:
    """Reject options that the others leave without effect, and a file in place of the folder."""
    run, report = ("jobs", "launcher", "set"), ("report", "resamples")
    if options.table is None:
        everything = ("model", "plan", "card", *run, *report, "folder")
        hint = "sts-lightning reproduce lists the tables."
        reject_unused(options, everything, "without the name of a table", hint)
    if options.plan:
        reject_unused(options, report, "with --plan")
    else:
        reject_unused(options, ("card",), "without --plan")
    if options.report:
        reject_unused(options, run, "with --report")
    if options.folder.exists() and not options.folder.is_dir():
        raise ConfigError(f"--folder {options.folder} is not a folder.", key="folder")

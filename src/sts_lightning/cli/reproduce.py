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
    parser.add_argument(
        "--evaluate",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="report an evaluation of each trained row with these settings of eval.py; Pcc-tuning's are "
        "quantization=none precision=32-true",
    )
    parser.add_argument(
        "--state",
        nargs="?",
        type=Path,
        const=Path(),
        metavar="FILE.md",
        help="print, or write, the page on the state of every table and figure (docs/reproduction.md)",
    )
    parser.add_argument(
        "--record",
        action="store_true",
        help="write the scores to docs/results too, for that page; rows of which it has more runs stay",
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
    """List the tables and figures or their state, or plan, run and report one."""
    from sts_lightning.cli import reproduce_table as steps  # --help does not wait for it

    _check(options)
    if options.state is not None:
        steps.write_state(None if options.state == Path() else options.state)
        return
    if options.table is None:
        steps.list_tables()
        list_figures()
        return
    table = steps.open_table(options.table, options.model, options.folder, options.evaluate)
    if options.plan:
        from sts_lightning.planning.costs import Costs

        steps.find_launcher(table, options.jobs, options.launcher, options.set)
        steps.print_plan(table, options.jobs, Costs(options.card))
        return
    finished = options.report or steps.reproduce(table, options.jobs, options.launcher, options.set)
    steps.write_report(table, options.table, options.resamples, options.evaluate, options.record)
    if not finished:
        raise UserError(
            "some runs have not finished; the messages above name them.", hint="The same command continues."
        )


def _check(options: argparse.Namespace) -> None:
    """Reject options that the others leave without effect, and a file in place of the folder."""
    run, report = ("jobs", "launcher", "set"), ("report", "record", "resamples")
    if options.state is not None or options.table is None:
        reason = "without the name of a table" if options.state is None else "with --state"
        hint = "sts-lightning reproduce lists the tables." if options.state is None else None
        reject_unused(options, ("model", "plan", "card", "evaluate", *run, *report, "folder"), reason, hint)
        if options.table is not None:
            raise ConfigError(f"--state is of all tables; leave out {options.table}.", key="state")
    if options.plan:
        reject_unused(options, report, "with --plan")
    else:
        reject_unused(options, ("card",), "without --plan")
    if options.report:
        reject_unused(options, run, "with --report")
    if options.folder.exists() and not options.folder.is_dir():
        raise ConfigError(f"--folder {options.folder} is not a folder.", key="folder")

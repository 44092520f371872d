"""`sts-lightning`: what is done with finished runs."""

from __future__ import annotations

import argparse
import logging
import math
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from sts_lightning.errors import ConfigError, UserError
from sts_lightning.files import check_output
from sts_lightning.interrupts import listening, signal_name, stopping_signal


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; one message and exit status 1 for a user's mistake, 128 + N after signal N."""
    parser = argparse.ArgumentParser("sts-lightning", description=__doc__)
    parser.add_argument("--debug", action="store_true", help="show stack traces")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_ceiling(commands)
    _add_compare(commands)
    _add_export(commands)
    _add_leaks(commands)
    _add_reproduce(commands)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    with listening():
        try:
            options.run_command(options)
        except UserError as error:
            if options.debug:
                raise
            if error.exit_status == 1:
                sys.exit(f"error: {error}")
            print(error, file=sys.stderr)  # noqa: T201
            sys.exit(error.exit_status)
        except OSError as error:  # every file that a command touches is one that the user named
            if options.debug:
                raise
            where = f"{error.filename2 or error.filename}: " if error.filename else ""
            sys.exit(f"error: {where}{error.strerror or error}.")
        except KeyboardInterrupt as error:
            number = stopping_signal(error) or signal.SIGINT
            print(f"stopped by {signal_name(number)}.", file=sys.stderr)  # noqa: T201
            sys.exit(128 + number)


Commands = argparse._SubParsersAction  # generic in stubs only


def _add_file(parser: argparse.ArgumentParser, what: str) -> None:
    """A file of the user's own, and the folder of the data that are read without one."""
    root = os.environ.get("STS_DATA_ROOT", "data")
    parser.add_argument("file", nargs="?", type=Path, help=what)
    parser.add_argument("--data-root", default=root, help="default: STS_DATA_ROOT, or data")


def _add_ceiling(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "ceiling", help="the best Spearman that a scorer of few distinct values could reach on the test sets"
    )
    _add_file(parser, "your own CSV, TSV or JSONL file; default: the seven test sets")
    parser.add_argument("--score", default="score", help="its column of gold scores; default: %(default)s")
    parser.add_argument("--levels", type=_levels, nargs="+", default=[2, 3, 5], help="default: 2 3 5")
    parser.add_argument("--plot", type=Path, help="also draw the ceilings of 2 to 20 levels to this PNG")
    parser.set_defaults(run_command=_ceiling)


def _ceiling(options: argparse.Namespace) -> None:
    from sts_lightning.cli.ceiling import read_golds, report_ceilings

    check_output("--plot", options.plot)
    golds = read_golds(options.file, options.score, options.data_root)
    report_ceilings(golds, options.levels, options.plot)


def _add_compare(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "compare", help="the difference of two runs, or of two sets of runs, with paired bootstrap intervals"
    )
    parser.add_argument("first", type=Path, nargs="+", help="run folders of one system")
    parser.add_argument("--to", type=Path, nargs="+", required=True, help="run folders of the other")
    parser.add_argument("--resamples", type=_positive, default=1000, help="draws; default: %(default)s")
    parser.set_defaults(run_command=_compare)


def _compare(options: argparse.Namespace) -> None:
    from sts_lightning.evaluation.compare import print_comparison

    print_comparison(options.first, options.to, options.resamples)


def _add_export(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "export", help="write a run as a peft adapter, a merged model or a sentence-transformers model"
    )
    parser.add_argument("run", type=Path, help="the run folder")
    parser.add_argument("folder", type=Path, help="where to write; must not exist")
    parser.add_argument(
        "--format",
        choices=["adapter", "merged", "sentence-transformers"],
        default="sentence-transformers",
        help="default: %(default)s",
    )
    parser.add_argument(
        "--base",
        choices=["trained", "original"],
        default="trained",
        help="what an adapter is merged into: the base as it was in training, its quantisation undone, or "
        "the original weights; default: %(default)s",
    )
    parser.add_argument(
        "--trust",
        nargs="+",
        default=[],
        metavar="NAME",
        help="further classes and settings that the run folder may ask for",
    )
    parser.add_argument(
        "--trust-remote-code", action="store_true", help="let code that comes with the run's model run"
    )
    parser.set_defaults(run_command=_export)


def _export(options: argparse.Namespace) -> None:
    from sts_lightning.export.export import export  # torch is not needed for --help

    export(
        options.run, options.folder, options.format, options.base, options.trust, options.trust_remote_code
    )
    logging.getLogger(__name__).info("%s: %s of %s", options.folder, options.format, options.run)


def _add_leaks(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "leaks", help="training pairs that stand in the test sets: exact, swapped, normalised, nearly equal"
    )
    _add_file(parser, "CSV, TSV or JSONL file of pairs; default: STS-B and SICK-R train")
    parser.add_argument("--against", default="sts7", help="sts7, or a file of test pairs; default: sts7")
    parser.add_argument(
        "--columns",
        nargs=2,
        default=["sentence1", "sentence2"],
        metavar=("FIRST", "SECOND"),
        help="the columns of the sentences in the files; default: sentence1 sentence2",
    )
    parser.add_argument(
        "--near",
        type=_share,
        default=0.8,
        help="least share of common 4-grams of near duplicates, 0: leave them out; default: %(default)s",
    )
    parser.add_argument("--list", type=Path, dest="listing", help="write the leaks to this CSV file")
    parser.add_argument("--write", type=Path, help="write the training file without them to this file")
    parser.set_defaults(run_command=_leaks)


def _leaks(options: argparse.Namespace) -> None:
    from sts_lightning.cli.leaks import read_source, read_tests, report_leaks

    for option, path in (("--list", options.listing), ("--write", options.write)):
        check_output(option, path)
    columns = tuple(options.columns)
    if columns[0] == columns[1]:
        raise ConfigError(f"--columns names {columns[0]!r} twice; a pair has two columns.")
    against = None if options.against == "sts7" else Path(options.against)
    source = read_source(options.file, columns, options.data_root)
    tests = read_tests(against, columns, options.data_root)
    report_leaks(source, tests, options.near or None, options.listing, options.write)


def _add_reproduce(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("reproduce", help="re-run a published table, and set ours next to it")
    parser.add_argument("table", nargs="?", help="a file of conf/reproduce; without one, they are listed")
    parser.add_argument("--model", help="run the rows at the scale of conf/reproduce/scale/MODEL.yaml")
    parser.add_argument("--plan", action="store_true", help="only print the runs and an estimate")
    parser.add_argument("--report", action="store_true", help="only collect what has finished")
    parser.add_argument("--jobs", type=_positive, help="at a time; default: one a GPU, or for each two cores")
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
    parser.add_argument("--resamples", type=_positive, default=1000, help="of the bootstrap; default: 1000")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("runs/reproduce"),
        help="of all tables' runs; default: %(default)s",
    )
    parser.set_defaults(run_command=_reproduce)


def _positive(text: str) -> int:
    return _at_least(1, text)


def _levels(text: str) -> int:
    return _at_least(2, text)


def _at_least(least: int, text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return int(text)


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return value


def _reproduce(options: argparse.Namespace) -> None:
    from sts_lightning.cli import reproduce as command

    if options.table is None:
        command.list_tables()
        return
    table = command.open_table(options.table, options.model, options.folder)
    if options.plan:
        command.print_plan(table, options.jobs)
        return
    finished = options.report or command.reproduce(table, options.jobs, options.launcher, options.set)
    command.write_report(table, options.table, options.resamples)
    if not finished:
        raise UserError(
            "some runs have not finished; the messages above say which. The same command goes on."
        )


if __name__ == "__main__":
    main()

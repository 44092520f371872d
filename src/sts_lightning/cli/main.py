"""The program `sts-lightning`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

import click

from sts_lightning.cli.errors import reporting
from sts_lightning.cli.groups import HydraCommand, LazyGroup
from sts_lightning.conf_folders import ENTRIES
from sts_lightning.cpu import set_cpu_defaults
from sts_lightning.interrupts import listening

USAGE = 2
"""Exit status for a command or an option that does not exist."""

DATA = {
    "status": "the published data, what is here of each, and who needs it",
    "get": "fetch parts of the data: sts, nli, wiki, transfer or all",
}

REPRODUCE = {
    "list": "the tables and figures, and what each needs",
    "plan": "the runs of a table, with memory, steps and time",
    "run": "run what is left of a table, and report it",
    "report": "collect what has finished of a table",
    "figure": "draw a figure of a paper from finished runs",
}

RUNS = {
    "list": "every run in a folder with its settings, scores and cost",
    "compare": "the difference of two runs, or of two sets of runs, with paired bootstrap intervals",
    "check": "whether a run folder is whole, fits its model and has the scores of its predictions",
    "mean": "scores of several runs, their mean and standard deviation",
}

COMMANDS: dict[str, str | click.Command] = {
    "train": HydraCommand("train", "fine-tune a sentence encoder; `train --help` lists the settings"),
    "eval": HydraCommand("eval", "evaluate a model or a run on the STS tasks; likewise"),
    "data": LazyGroup("data", "list the published data, or fetch them", DATA, "status", "status"),
    "plan": "memory, largest micro batch and hours of a run, without a GPU",
    "reproduce": LazyGroup("reproduce", "re-run a published table, and compare", REPRODUCE, "list", "run"),
    "export": "write a run for peft, transformers or sentence-transformers, with a model card",
    "score": "the similarity of each pair of a file, by a run or any model",
    "leaks": "training pairs that also occur in the test sets: exact, swapped, normalised, nearly equal",
    "runs": LazyGroup("runs", "list, compare, check and average finished runs", RUNS, "list", "list"),
    "average": "average the weights of runs of one model, or of a run and what it started from",
    "ceiling": "the best Spearman that a scorer of two values could reach on the test sets",
}


@click.pass_context
def _begin(context: click.Context, debug: bool) -> None:
    if context.invoked_subcommand not in ENTRIES:  # for these Hydra sets up the log
        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)


PROGRAM = LazyGroup(
    "sts-lightning",
    "training, evaluation, and tools for data, finished runs, test sets and published tables",
    COMMANDS,
    callback=_begin,
    params=[click.Option(["--debug"], is_flag=True, help="Show stack traces.")],
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; `reporting` has the exit statuses, and 2 is for a command line that is wrong."""
    set_cpu_defaults()
    given = sys.argv[1:] if arguments is None else list(arguments)
    with listening(), reporting(given[:1] == ["--debug"]):
        try:
            with PROGRAM.make_context("sts-lightning", given) as context:
                PROGRAM.invoke(context)
        except click.exceptions.Exit as done:  # after --help
            sys.exit(done.exit_code)
        except click.UsageError as error:
            of = "sts-lightning" if error.ctx is None else error.ctx.command_path
            message = error.format_message()
            stop = "" if message.endswith((".", "?", ")")) else "."
            print(f"error: {message}{stop} See `{of} --help`.", file=sys.stderr)
            sys.exit(USAGE)


if __name__ == "__main__":
    main()

"""The program `sts-lightning`."""

from __future__ import annotations

import difflib
import logging
import runpy
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click

from sts_lightning.cli.errors import reporting
from sts_lightning.core.conf_folders import ENTRIES, Entry, script_of
from sts_lightning.core.hardware import set_cpu_defaults, set_gpu_defaults
from sts_lightning.core.signals import listening


class HydraCommand(click.Command):
    """Command whose arguments are overrides and Hydra's own options, `--help` among them."""

    def __init__(self, entry: Entry, summary: str) -> None:
        super().__init__(entry, short_help=summary)
        self.entry = entry

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take all arguments as they are."""
        ctx.args = args
        return args

    def invoke(self, ctx: click.Context) -> None:
        """Run the command's script in this process, as ``python SCRIPT ...`` would.

        Its name goes first in ``sys.argv``: processes of further devices and jobs of a sweep start it.
        """
        debug = ["--debug"] if ctx.find_root().params["debug"] else []
        sys.argv = [str(script_of(self.entry)), *ctx.args, *debug]
        runpy.run_path(sys.argv[0], run_name="__main__")


class LazyGroup(click.Group):
    """Group of commands of which only the one that runs is imported.

    Args:
        name: Name of the group.
        summary: What it is for.
        commands: Its commands, or what each does. Such a one is ``NAME_command`` in the module of the group,
            or, in the whole program, of a separate module.
        alone: Command that is meant without arguments, if any.
        short: Command that is meant where the first argument names none, if any.
        **settings: Of `click.Group`.
    """

    def __init__(
        self,
        name: str,
        summary: str,
        commands: Mapping[str, str | click.Command],
        alone: str | None = None,
        short: str | None = None,
        **settings: Any,
    ) -> None:
        hint = f"\n\n`{name} ...` without the name of a command is `{name} {short} ...`." if short else ""
        super().__init__(
            name,
            help=f"{summary[0].upper()}{summary[1:]}.{hint}",
            short_help=summary,
            no_args_is_help=False,
            **settings,
        )
        self.known, self.alone, self.short = commands, alone, short

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(self.known)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        """Return a command; those of which only the summary is known are imported."""
        known = self.known.get(cmd_name)
        if isinstance(known, click.Command):
            return known
        if known is None:
            self._fail(ctx, cmd_name, difflib.get_close_matches(cmd_name, self.known, 1))
        module = cmd_name if ctx.parent is None else self.name
        command: click.Command = getattr(import_module(f"sts_lightning.cli.{module}"), f"{cmd_name}_command")
        return command

    def _fail(self, ctx: click.Context, name: str, near: list[str]) -> NoReturn:
        hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(self.known)}."
        ctx.fail(f"there is no command {name!r}. {hint}")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table."""
        rows = [
            (name, known if isinstance(known, str) else known.short_help or "")
            for name, known in self.known.items()
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command that is meant before arguments without one, unless the first is one mistyped."""
        meant = self.short if args else self.alone
        if meant is not None and not (args and args[0] in (*self.known, "--help")):
            if args and args[0].isalpha() and not Path(args[0]).exists():  # no folder, and no name of a table
                near = difflib.get_close_matches(args[0], self.known, 1, cutoff=0.7)
                takes = any(isinstance(one, click.Argument) for one in self.get_command(ctx, meant).params)
                if near or not takes:
                    self._fail(ctx, args[0], near)
            args = [meant, *args]
        return super().parse_args(ctx, args)


USAGE = 2
"""Exit status for a command or an option that does not exist."""

DATA = {
    "status": "the published data, what is here of each, and who needs it",
    "get": "fetch parts of the data: sts, nli, wiki, transfer or all",
    "mine": "hard negatives for the pairs of a file, by a run or any model",
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
    "data": LazyGroup("data", "list or fetch the published data, mine negatives", DATA, "status", "status"),
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
    set_gpu_defaults()
    given = sys.argv[1:] if arguments is None else list(arguments)
    words, debug = [text for text in given if text != "--debug"], "--debug" in given
    if debug and words and words[0] not in ENTRIES:  # these take it off themselves
        given = ["--debug", *words]
    with listening(), reporting(debug):
        try:
            with PROGRAM.make_context("sts-lightning", given) as context:
                PROGRAM.invoke(context)
        except click.exceptions.Exit as done:  # after --help
            sys.exit(done.exit_code)
        except click.UsageError as error:
            of = _typed(words) if error.ctx is None else error.ctx.command_path
            message = error.format_message()
            stop = "" if message.endswith((".", "?", ")")) else "."
            print(f"error: {message}{stop} See `{of} --help`.", file=sys.stderr)
            sys.exit(USAGE)


def _typed(words: Sequence[str]) -> str:
    """Return the command of a command line, for an error about which click does not say it."""
    names, command = ["sts-lightning"], PROGRAM
    for word in words:
        known = command.known.get(word)
        names += [] if known is None else [word]
        if not isinstance(known, LazyGroup):
            break
        command = known
    return " ".join(names)


if __name__ == "__main__":
    main()

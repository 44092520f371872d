"""The program `sts-lightning`."""

from __future__ import annotations

import difflib
import logging
import runpy
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from sts_lightning.cli.errors import asks_for_traces, reporting
from sts_lightning.config.folders import ENTRIES, script_of
from sts_lightning.core.hardware import set_cpu_defaults, set_gpu_defaults
from sts_lightning.core.signals import listening


class LazyGroup(click.Group):
    """Group of commands of which only the one that runs is imported.

    Args:
        name: Name of the group.
        summary: What it is for.
        known: What each command does. It is ``NAME_command`` in the module of the group, or, in the whole
            program, of a separate module; or it is a group itself.
        **settings: Of `click.Group`.
    """

    def __init__(
        self, name: str, summary: str, known: Mapping[str, str | click.Group], **settings: Any
    ) -> None:
        commands = {
            key: click.Command(key, short_help=what) if isinstance(what, str) else what
            for key, what in known.items()
        }
        text = f"{summary[0].upper()}{summary[1:]}."
        super().__init__(name, commands, help=text, short_help=summary, **settings)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in their own order."""
        return [*self.commands]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return a command by its name, which is imported; for another word say what there is."""
        name, *others = args
        known = self.commands.get(name)
        if known is None:
            renamed = [key for key in self.commands if key == RENAMED.get(name)]
            near = renamed or difflib.get_close_matches(name, self.commands) or self.commands
            ctx.fail(f"No such command {name!r}. Did you mean {', '.join(near)}?")
        if not isinstance(known, click.Group):
            usual = f"sts_lightning.cli.{name if ctx.parent is None else self.name}"
            module = import_module(ELSEWHERE.get(name, usual))
            known = getattr(module, f"{name}_command")
        return name, known, others


DATA = {
    "status": "the published data, what is here of each, and who needs it",
    "get": "fetch parts of the data: sts, nli, wiki, transfer or all",
    "mine": "hard negatives for the pairs of a file, by a run or any model",
}

REPRODUCE = {
    "list": "the tables, and what each needs",
    "plan": "the runs of a table, with memory, steps and time",
    "run": "run what is left of a table, and report it",
    "report": "collect what has finished of a table",
    "figure": "figures of the papers: python examples/paper_figures.py",
}

RUNS = {
    "list": "every run in a folder with its settings, scores and cost",
    "compare": "the difference of two runs, or of two sets of runs, with paired bootstrap intervals",
    "check": "whether a run folder is whole, fits its model and has the scores of its predictions",
    "mean": "scores of several runs, their mean and standard deviation",
}

COMMANDS: dict[str, str | click.Group] = {
    "train": "fine-tune a sentence encoder; `train --help` lists the settings",
    "eval": "evaluate a model or a run on the STS tasks; likewise",
    "data": LazyGroup("data", "list or fetch the published data, mine negatives", DATA),
    "plan": "memory, largest micro batch and hours of a run, without a GPU",
    "reproduce": LazyGroup("reproduce", "re-run a published table, and compare", REPRODUCE),
    "export": "write a run for peft, transformers or sentence-transformers, with a model card",
    "similarity": "the cosine of each pair of a file, by a run or any model",
    "leaks": "training pairs that also occur in the test sets: exact, swapped, normalised, nearly equal",
    "runs": LazyGroup("runs", "list, compare, check and average finished runs", RUNS),
    "average": "average the weights of runs of one model, or of a run and what it started from",
    "ceiling": "the best Spearman that a scorer of two values could reach on the test sets",
}

ELSEWHERE = {"ceiling": "sts_lightning.papers.ceiling"}
"""Modules of commands that are not in this package."""

SHORTAGE = dict.fromkeys(("export", "similarity", "mine"), "`--device cpu` takes the host's memory.")
"""What to do where memory runs out, by command."""

RENAMED = {"score": "similarity"}
"""Commands of earlier versions, and what they are now."""

PROGRAM = LazyGroup(
    "sts-lightning",
    "training, evaluation, and tools for data, finished runs, test sets and published tables",
    COMMANDS,
    params=[click.Option(["--debug"], is_flag=True, expose_value=False, help="Show stack traces.")],
    context_settings={"show_default": True},
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; `reporting` has the exit statuses, and 2 is for a command line that is wrong.

    Hydra reads those of `ENTRIES`: their script runs in this process, as ``python SCRIPT ...`` would. Its
    name goes first in ``sys.argv``: processes of further devices and jobs of a sweep start it.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    words = [text for text in given if text != "--debug"]
    if words and words[0] in ENTRIES:
        given.remove(words[0])
        sys.argv = [str(script_of(words[0])), *given]
        runpy.run_path(sys.argv[0], run_name="__main__")
        return
    set_cpu_defaults()
    set_gpu_defaults()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    advice = next((SHORTAGE[word] for word in words[:2] if word in SHORTAGE), "")
    with listening(), reporting(asks_for_traces(given), advice):
        try:  # as click's own main, which would make a stop an error of its own
            with PROGRAM.make_context("sts-lightning", words) as context:
                PROGRAM.invoke(context)
        except click.exceptions.Exit as done:  # after --help
            sys.exit(done.exit_code)
        except click.ClickException as error:
            error.show()
            sys.exit(error.exit_code)


if __name__ == "__main__":
    main()

"""Groups of commands that import a command when it runs, and the commands that Hydra reads."""

from __future__ import annotations

import difflib
import runpy
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from sts_lightning.conf_folders import Entry, script_of


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
            or, in the whole program, of a module of its own.
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
            near = difflib.get_close_matches(cmd_name, self.known, 1)
            hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(self.known)}."
            ctx.fail(f"there is no command {cmd_name!r}. {hint}")
        module = cmd_name if ctx.parent is None else self.name
        found = getattr(import_module(f"sts_lightning.cli.{module}"), f"{cmd_name}_command")
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table."""
        rows = [
            (name, known if isinstance(known, str) else known.short_help or "")
            for name, known in self.known.items()
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command that is meant before arguments without one."""
        meant = self.short if args else self.alone
        if meant is not None and not (args and args[0] in (*self.known, "--help")):
            args = [meant, *args]
        return super().parse_args(ctx, args)

"""`sts-lightning plan`: memory, steps and time of a run, before it starts."""

from __future__ import annotations

from collections.abc import Sequence

import click

from sts_lightning.config.by_file import choose_by_file
from sts_lightning.config.check import unknown_key, with_home
from sts_lightning.config.compose import check_choices
from sts_lightning.config.earlier_runs import compose_runs
from sts_lightning.config.schema import COMMAND
from sts_lightning.core.errors import UserError
from sts_lightning.planning.cost import print_costs


@click.command("plan")
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--card", help="rtx4090, a100-80, h100, ..., or its memory, as 24GB. Default: this machine.")
def plan_command(overrides: Sequence[str], card: str | None) -> None:
    """Plan a training run, and those that it starts from by an experiment, without a GPU.

    Overrides are those of the run, such as model=mistral7b prompt=eol.
    """
    overrides = [with_home(override) for override in overrides]
    for key in COMMAND:
        if any(override.startswith(f"{key}=") for override in overrides):
            raise unknown_key(key, "It is one of `train` itself; a plan has --card.")
    check_choices(overrides)
    overrides = [*overrides, *choose_by_file(overrides)]
    for found in print_costs(((cfg.name, cfg) for cfg in compose_runs(overrides)), card):
        if isinstance(found, UserError):
            raise found

"""`sts-lightning plan`: memory, steps and time of a run, before it starts."""

from __future__ import annotations

from collections.abc import Sequence

import click

from sts_lightning.config.by_file import choose_by_file
from sts_lightning.config.check import check_config, check_known, with_home
from sts_lightning.config.compose import check_choices, compose_train
from sts_lightning.core.errors import UserError
from sts_lightning.planning.plan import print_plans
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.checks import build_parts


@click.command("plan")
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--card", help="rtx4090, a100-80, h100, ..., or its memory, as 24GB. Default: this machine.")
def plan_command(overrides: Sequence[str], card: str | None) -> None:
    """Plan a training run, or each of its stages, without a GPU.

    Overrides are those of the run, such as model=mistral7b prompt=eol.
    """
    overrides = [with_home(override) for override in overrides]
    check_choices(overrides)
    overrides = [*overrides, *choose_by_file(overrides)]
    runs = list(compose_train(overrides).items())
    for name, cfg in runs:
        check_known(cfg)
        build_parts(RunFolder(name), check_config(cfg))  # which parts do not fit together
    for found in print_plans(runs, card):
        if isinstance(found, UserError):
            raise found

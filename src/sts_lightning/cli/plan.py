"""`sts-lightning plan`: memory, micro batch and hours of a run, before it starts."""

from __future__ import annotations

import argparse

from sts_lightning.cli.arguments import Commands


def add_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the program."""
    parser = commands.add_parser("plan", help="memory, largest micro batch and hours of a run, without a GPU")
    parser.add_argument(
        "overrides", nargs="*", help="those of a training run, such as model=mistral7b prompt=eol"
    )
    parser.add_argument(
        "--card", help="rtx4090, a100-80, h100, ..., its memory, as 24GB, or cpu; default: this machine"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Plan a run, or each of its stages."""
    # Neither Hydra nor torch is needed for --help.
    from sts_lightning.cli.group_choices import check_choices

    check_choices(options.overrides)
    from sts_lightning.config.compose import compose_train
    from sts_lightning.config.constraints import check_config, check_known
    from sts_lightning.errors import ConfigError
    from sts_lightning.planning.costs import print_estimate
    from sts_lightning.planning.estimate import estimate
    from sts_lightning.runs.folder import RunFolder
    from sts_lightning.workflows.checks import build_parts

    for name, cfg in compose_train(options.overrides).items():
        check_known(cfg)
        checked = check_config(cfg)
        for key, usual, instead in (("plan", False, "use --card"), ("resume", None, "it plans new runs")):
            if checked[key] != usual:
                raise ConfigError(f"{key}={checked[key]} has no effect in this command; {instead}.", key=key)
        build_parts(RunFolder(name), checked)  # which parts do not fit together
        print_estimate(name, estimate(cfg, options.card))

"""`sts-lightning export`: a run as a folder that other libraries read, with a model card."""

from __future__ import annotations

import argparse
import logging
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from sts_lightning.choices import ExportFormat
from sts_lightning.cli.arguments import Commands, add_trust, reject_unused
from sts_lightning.errors import ConfigError

if TYPE_CHECKING:
    from sts_lightning.export.push import Target

log = logging.getLogger(__name__)


def add_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the program."""
    parser = commands.add_parser(
        "export",
        help="write a run for peft, transformers or sentence-transformers, with a model card",
    )
    parser.add_argument("run_folder", metavar="RUN", type=Path, help="the run folder")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="where to write; must not exist")
    parser.add_argument(
        "--format",
        choices=get_args(ExportFormat),
        default="sentence-transformers",
        help="default: %(default)s",
    )
    parser.add_argument(
        "--base",
        choices=["trained", "original"],
        default="trained",
        help="weights that an adapter is merged into: the base as in training, dequantised, or the original "
        "weights; default: %(default)s",
    )
    parser.add_argument(
        "--license",
        type=_licence,
        metavar="ID",
        help="licence for the model card, such as apache-2.0; default: what the base model's card says",
    )
    parser.add_argument("--push", metavar="OWNER/NAME", help="upload the folder to the model hub")
    parser.add_argument(
        "--private", action="store_true", help="with --push: create a repository that only its owner may read"
    )
    parser.add_argument("--revision", metavar="BRANCH", help="with --push: the branch; default: the main one")
    add_trust(parser)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from sts_lightning.config.trust import Trust
    from sts_lightning.export.export import export  # torch is not needed for --help
    from sts_lightning.export.push import push
    from sts_lightning.files import check_new_folder
    from sts_lightning.runs.folder import RunFolder
    from sts_lightning.workflows.model_card import card_facts, model_card

    source, folder = options.run_folder, options.folder
    target = _target(options)
    trust = Trust.of(options.trust, options.trust_remote_code)
    RunFolder(source).last_stage().load_config(trust, encoder_only=True)  # before files it names
    check_new_folder(folder)
    name = folder.absolute().name if target is None else target.repo
    facts = card_facts(source)
    if target is not None and options.format == "adapter" and facts.base.hub_id is None:
        raise ConfigError(
            f"--push: {facts.base.name}, the base of the adapter, is not on the hub; the adapter would name "
            "its place on this machine.",
            key="push",
            hint="Push the whole model, with --format merged or sentence-transformers.",
        )
    card = partial(
        model_card,
        facts,
        options.format,
        options.license,
        name,
        original_base=options.base == "original",
    )
    export(source, folder, options.format, options.base, options.trust, options.trust_remote_code, card)
    log.info("%s: %s of %s, with a model card in README.md", folder, options.format, source)
    if target is not None:
        log.info("pushed: %s", push(folder, target))


def _target(options: argparse.Namespace) -> Target | None:
    """Return the checked place on the hub, None without --push.

    Raises:
        UserError: An option needs --push, or the place or the token is missing or invalid.
    """
    from sts_lightning.export.push import Target

    if options.push is None:
        reject_unused(options, ("private", "revision"), "without --push OWNER/NAME")
        return None
    target = Target(options.push, options.private, options.revision)
    target.check()
    return target


def _licence(text: str) -> str:
    """Argument type of licence identifiers as the model hub writes them."""
    if not re.fullmatch(r"[a-z0-9]+([.-][a-z0-9]+)*", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no licence identifier such as apache-2.0, mit or other"
        )
    return text

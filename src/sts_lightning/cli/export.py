"""`sts-lightning export`: a run as a folder that other libraries read, with a model card."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Any, get_args

import click

from sts_lightning.cli.options import FILE, TRUST_REMOTE_CODE
from sts_lightning.core.choices import ExportFormat
from sts_lightning.core.errors import ConfigError
from sts_lightning.core.files import check_new_folder
from sts_lightning.export.card import card_facts, model_card
from sts_lightning.export.export import export
from sts_lightning.export.push import Target, push

log = logging.getLogger(__name__)


@click.command("export")
@click.argument("run", type=FILE)
@click.argument("folder", type=FILE)
@click.option(
    "--format",
    "form",
    type=click.Choice(get_args(ExportFormat)),
    default="sentence-transformers",
    show_default=True,
)
@click.option(
    "--base",
    type=click.Choice(["trained", "original"]),
    default="trained",
    show_default=True,
    help="Weights that an adapter is merged into: those of training, dequantised, or the original ones.",
)
@click.option(
    "--license",
    metavar="ID",
    help="Licence for the model card, such as apache-2.0. Default: what the base model's card says.",
)
@click.option("--push", "repository", metavar="OWNER/NAME", help="Upload the folder to the model hub.")
@click.option(
    "--private", is_flag=True, help="With --push: create a repository that only its owner may read."
)
@click.option("--revision", metavar="BRANCH", help="With --push: the branch. Default: the main one.")
@TRUST_REMOTE_CODE
def export_command(
    run: Path,
    folder: Path,
    form: Any,
    base: Any,
    license: str | None,
    repository: str | None,
    private: bool,
    revision: str | None,
    trust_remote_code: bool,
) -> None:
    """Write RUN to FOLDER, which must not exist, for another library, with a model card."""
    target = None
    if repository is not None:
        target = Target(repository, private, revision)
        target.check()
    check_new_folder(folder)
    facts = card_facts(run)
    if target is not None and form == "adapter" and facts.base.hub_id is None:
        raise ConfigError(
            f"--push: {facts.base.name}, the base of the adapter, is not on the hub; the adapter would name "
            "its place on this machine.",
            key="push",
            hint="Push the whole model, with --format merged, sentence-transformers or onnx.",
        )
    name = folder.absolute().name if target is None else target.repo
    card = partial(model_card, facts, form, license, name, original_base=base == "original")
    export(run, folder, form, base, trust_remote_code, card)
    log.info("%s: %s of %s, with a model card in README.md", folder, form, run)
    if target is not None:
        log.info("pushed: %s", push(folder, target))

"""`sts-lightning export`: a run as a folder that other libraries read, with a model card."""

from __future__ import annotations

import logging
import shlex
from functools import partial
from pathlib import Path
from typing import Any, get_args

import click

from sts_lightning.cli.options import DEVICE, FILE, TRUST_REMOTE_CODE
from sts_lightning.core.choices import ExportFormat
from sts_lightning.core.errors import UserError
from sts_lightning.core.files import check_new_folder
from sts_lightning.export.card import card_facts, model_card
from sts_lightning.export.export import export
from sts_lightning.workflows.evaluate import encoding_device

log = logging.getLogger(__name__)


def _upload(folder: str) -> str:
    """Return the command that uploads a folder and deletes what an earlier upload had and this one lacks."""
    return shlex.join(["hf", "upload", "OWNER/NAME", folder, ".", "--delete", "*"])


@click.command("export")
@click.argument("run", type=FILE)
@click.argument("folder", type=FILE)
@click.option("--format", "form", type=click.Choice(get_args(ExportFormat)), default="sentence-transformers")
@click.option(
    "--base",
    type=click.Choice(["trained", "original"]),
    default="trained",
    help="Weights that an adapter is merged into: those of training, dequantised, or the original ones.",
)
@click.option("--license", metavar="ID", help="Licence for the model card. Default: unknown.")
@click.option("--push", "--private", "--revision", is_flag=False, flag_value="", hidden=True)  # of 0.3
@DEVICE
@TRUST_REMOTE_CODE
def export_command(
    run: Path,
    folder: Path,
    form: Any,
    base: Any,
    license: str | None,
    push: str | None,
    device: str,
    trust_remote_code: bool,
) -> None:
    """Write RUN to FOLDER, which must not exist, for another library, with a model card."""
    if push is not None:
        raise UserError(f"there is no --push any more; upload the folder with `{_upload('FOLDER')}`.")
    check_new_folder(folder)
    facts = card_facts(run)
    card = partial(model_card, facts, form, license, folder.absolute().name, original_base=base == "original")
    # Weights that are not quantised stay on the host, unless it is to be the card.
    place = None if device == "auto" else encoding_device(device, "--device")
    export(run, folder, form, base, trust_remote_code, card, place)
    log.info("%s: %s of %s, with a model card in README.md", folder, form, run)
    if form == "adapter" and facts["base"].get("hub_id") is None:
        log.info("not for upload: %s, the base of the adapter, is not on the hub", facts["base"]["name"])
    else:
        log.info("to upload it: %s", _upload(str(folder)))

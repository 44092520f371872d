"""Weights of an earlier run as the start of a new one."""

from __future__ import annotations

import logging
from typing import Any, Literal

from omegaconf import DictConfig

from sts_lightning.config.trust import NOTHING, Trust
from sts_lightning.errors import CheckpointError
from sts_lightning.losses.base import Loss
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.freezing import freeze
from sts_lightning.models.loading import load_part
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.seen_dev_pairs import describe_seen

log = logging.getLogger(__name__)


def warm_start(
    run: RunFolder, cfg: DictConfig, encoder: SentenceEncoder, loss: Loss, trust: Trust = NOTHING
) -> set[str]:
    """Load the weights of an earlier run: those of the encoder, and of a loss head of the same shape.

    Args:
        run: The earlier run's folder.
        cfg: Configuration of the new run, whose model must be that of the earlier one.
        encoder: The encoder to load the weights into.
        loss: The loss; its head is loaded only if it has the shape of the earlier run's head.
        trust: The user's word on what the earlier run's folder may ask for.

    Returns:
        Names of the encoder's weights that were loaded.

    Raises:
        CheckpointError: The folder is no run folder, has another model, or its files are broken.
    """
    earlier, model, which = run.load_config(trust, encoder_only=True), cfg.model, cfg.init
    for key in ("_target_", "name"):
        if earlier.model.get(key) != model.get(key):
            raise CheckpointError(
                f"init_from={run.name} was trained from model {earlier.model.get(key)}, not "
                f"{model.get(key)}; choose the same model."
            )
    if _shape_of(earlier.model) != _shape_of(model):
        raise CheckpointError(
            f"init_from={run.name} was trained with another adapter ({_shape_of(earlier.model) or 'none'}), "
            f"not {_shape_of(model) or 'none'}; leave model.adapter as it was."
        )
    seen = describe_seen("this run", cfg.data, earlier.data) if "data" in earlier else None
    if seen is not None:
        log.warning("WARNING: init_from=%s %s A checkpoint near the start may look too good.", run.name, seen)
    if run.resumable:
        log.warning("WARNING: init_from=%s has not finished; resume=%s finishes it.", run.name, run.name)
    kind: Literal["best", "last"] = "best" if which == "best" else "last"
    path = run.checkpoint(kind)
    checkpoint = run.read_checkpoint(kind)
    trains = {parameter: parameter.requires_grad for parameter in encoder.parameters()}
    freeze(encoder, earlier.get("freeze", "none"))  # what the earlier run did not train may be absent
    names = load_part(encoder, "encoder.", checkpoint, path)
    for parameter, requires_grad in trains.items():
        parameter.requires_grad_(requires_grad)
    heads = {name: v.shape for name, v in checkpoint["state_dict"].items() if name.startswith("loss.")}
    same_head = heads == {f"loss.{name}": value.shape for name, value in loss.state_dict().items()}
    if heads and same_head:
        load_part(loss, "loss.", checkpoint, path)
    log.info(
        "starting from %s (%s, step %d): %d weights of the encoder, %s",
        run.name,
        which,
        checkpoint["global_step"],
        len(names),
        "and the head" if heads and same_head else "no head",
    )
    return names


def _shape_of(model: DictConfig) -> dict[str, Any]:
    """Return the settings of a model's adapter that decide which weights it has, and what they mean."""
    adapter = model.get("adapter") or {}
    return {key: value for key, value in adapter.items() if key != "lora_dropout"}

"""Model folders for runs of version 0.3, which kept checkpoints and a configuration to build a model from."""

from __future__ import annotations

import logging
from typing import Any

from sts_lightning.core.errors import CheckpointError
from sts_lightning.models.encoder import freeze
from sts_lightning.models.loading.backbone import check_finite, check_weights
from sts_lightning.models.loading.folder import write_model
from sts_lightning.models.loading.run import build_encoder, set_evaluation_text
from sts_lightning.runs.folder import Checkpoint, RunFolder, Which

log = logging.getLogger(__name__)


def write_old_model(run: RunFolder, which: Which) -> None:
    """Write the model folder of weights that version 0.3 stored as a checkpoint.

    It is written once, to where runs have it now; the run's other files stay.

    Raises:
        CheckpointError: The configuration or the weights cannot be read, or the folder not be written.
    """
    stored: Checkpoint = "last" if which == "final" else which
    cfg, checkpoint = run.load_config(), run.read_checkpoint(stored)
    encoder = freeze(build_encoder(cfg.model, cfg.prompt), cfg.optim.freeze)
    parts: dict[str, dict[str, Any]] = {"encoder": {}, "loss": {}}
    for name, value in checkpoint["state_dict"].items():
        part, _, key = name.partition(".")
        parts.get(part, {})[key] = value
    trained = {name for name, weight in encoder.named_parameters() if weight.requires_grad}
    check_weights(encoder.state_dict(), parts["encoder"], str(run.checkpoint(stored)), trained)
    check_finite(parts["encoder"].items(), str(run.checkpoint(stored)))
    encoder.load_state_dict(parts["encoder"], strict=False)
    set_evaluation_text(encoder, cfg.evaluation.text_edit, cfg.evaluation.max_length)
    folder = run.checkpoints / "final" if which == "final" else run.model(which)
    try:
        write_model(encoder, folder, parts["loss"], checkpoint["global_step"], cfg.evaluation.precision)
    except OSError as error:
        raise CheckpointError(
            f"{folder} cannot be written ({error.strerror}): a run of 0.3 gets a model folder there.",
            hint="Copy the run to where you may write.",
        ) from error
    log.info("%s: the model of a run of 0.3, written once", folder)

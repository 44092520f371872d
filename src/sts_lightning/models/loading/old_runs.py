"""Model folders for runs of version 0.3, which kept checkpoints and a configuration to build a model from."""

from __future__ import annotations

import logging

from sts_lightning.core.errors import CheckpointError
from sts_lightning.models.encoder import freeze
from sts_lightning.models.loading.folder import write_model
from sts_lightning.models.loading.run import build_encoder, load_part, set_evaluation_text
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
    load_part(encoder, "encoder.", checkpoint, run.checkpoint(stored))
    set_evaluation_text(encoder, cfg.evaluation.text_edit, cfg.evaluation.max_length)
    head = {
        name.removeprefix("loss."): value
        for name, value in checkpoint["state_dict"].items()
        if name.startswith("loss.")
    }
    folder = run.checkpoints / "final" if which == "final" else run.model(which)
    try:
        write_model(encoder, folder, head, checkpoint["global_step"], cfg.evaluation.precision)
    except OSError as error:
        raise CheckpointError(
            f"{folder} cannot be written ({error.strerror}): a run of 0.3 gets a model folder there.",
            hint="Copy the run to where you may write.",
        ) from error
    log.info("%s: the model of a run of 0.3, written once", folder)

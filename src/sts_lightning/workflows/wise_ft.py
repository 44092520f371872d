"""Average of the selected weights and those that a run started from, in the share of the best dev score."""

from __future__ import annotations

import copy
import logging
from typing import Any

from omegaconf import DictConfig
from torch import Tensor

from sts_lightning.data.module import SentenceDataModule
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading import load_part
from sts_lightning.models.weight_sum import Weights, weighted_sum
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.scoring import score
from sts_lightning.workflows.soup_parents import ENCODER, Parent, mean_start

log = logging.getLogger(__name__)

ENTRY = "wise_ft"
"""Name of the share and the scores in the checkpoint and among the results."""


def mix_with_start(
    run: RunFolder, cfg: DictConfig, encoder: SentenceEncoder, data: SentenceDataModule, writes: bool
) -> dict[str, Any] | None:
    r"""Replace the weights of the best dev score by their best average with those that the run started from.

    WiSE-FT (Wortsman et al. 2022, "Robust fine-tuning of zero-shot models"); of the shares
    :math:`\alpha` in ``trainer.wise_ft`` and 1, the one with the best dev score is selected:

    .. math:: \theta = (1 - \alpha)\, \theta_0 + \alpha\, \theta_1

    A run that was killed later in its report finds its average in the checkpoint, and keeps it.

    Args:
        run: Folder of the run, with its checkpoints.
        cfg: Configuration of the run.
        encoder: The encoder, which is left with the selected weights.
        data: Dev pairs.
        writes: Whether this process writes the checkpoint; of several, each computes the average.

    Returns:
        The selected share and the dev Spearman of each, as stored with the results; None without
        ``trainer.wise_ft``.
    """
    shares = cfg.trainer.wise_ft
    if not shares:
        return None
    checkpoint = run.read_checkpoint("best")
    if ENTRY in checkpoint:
        known: dict[str, Any] = checkpoint[ENTRY]
        return known
    parent = Parent(run, cfg, checkpoint["state_dict"])
    ends = [mean_start([parent]), parent.encoder()]

    def average(share: float) -> dict[str, Tensor]:
        return weighted_sum(ends, [1 - share, share])

    dev = {
        share: dev_of_weights(encoder, average(share), data, cfg.evaluation, run) for share in (1.0, *shares)
    }
    selected = max(dev, key=lambda share: dev[share])  # of equal ones the first, which is 1
    chosen = average(selected)
    told = ", ".join(f"{share:g}: {value:.2f}" for share, value in dev.items())
    log.info(
        "dev by the share of the best weights in an average with the start: %s; selected: %g", told, selected
    )
    start = dev[0.0] if 0.0 in dev else dev_of_weights(encoder, average(0.0), data, cfg.evaluation, run)
    load_part(encoder, ENCODER, {"state_dict": chosen}, run.checkpoint("best"))
    by_share = {f"{share:g}": value for share, value in dev.items()}
    mixture = {"share": selected, "dev": by_share, "start": start}
    if writes:
        weights = {**checkpoint["state_dict"], **chosen}
        run.write_checkpoint("best", {**checkpoint, "state_dict": weights, ENTRY: mixture})
    return mixture


def dev_of_weights(
    encoder: SentenceEncoder,
    weights: Weights,
    data: SentenceDataModule,
    evaluation: DictConfig,
    run: RunFolder,
) -> float:
    """Return the dev Spearman times 100 of weights, which are left in the encoder.

    Args:
        encoder: Encoder of the same shape.
        weights: Weights of the encoder by their names in a checkpoint.
        data: Dev pairs.
        evaluation: The group ``evaluation``; the test tasks are not scored.
        run: Run that messages name.
    """
    load_part(encoder, ENCODER, {"state_dict": dict(weights)}, run.checkpoint("best"))
    on_dev = copy.deepcopy(evaluation)
    on_dev.final = False
    return score(encoder, data, on_dev).dev["spearman"]

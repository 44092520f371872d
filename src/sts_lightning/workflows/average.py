"""Averages of the weights of runs, and of a run and what it started from."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig
from torch import Tensor

from sts_lightning.core.errors import CheckpointError
from sts_lightning.core.files import new_folder
from sts_lightning.data.module import DataModule
from sts_lightning.evaluation.score import how_scored, score_data
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.folder import load_weights, write_model
from sts_lightning.models.loading.hub import ModelFiles
from sts_lightning.models.loading.own_file import read_own
from sts_lightning.models.loading.pipeline import read_model
from sts_lightning.models.loading.run import build_encoder, model_folder
from sts_lightning.runs.folder import RunFolder, write_checkpoint
from sts_lightning.runs.metrics import RunMetrics, origin
from sts_lightning.runs.predictions import save_dev, save_predictions
from sts_lightning.training.assembly import make_data
from sts_lightning.workflows.preflight import describe_seen

log = logging.getLogger(__name__)

ENCODER = "encoder."
"""Prefix of the names of the encoder's weights in a checkpoint."""

ENTRY = "wise_ft"
"""Name of the share and the scores in the checkpoint of a run and among its results."""

Weights = Mapping[str, Tensor]
"""Tensors by name."""


@dataclass(frozen=True)
class Parent:
    """A run whose weights are averaged.

    Attributes:
        run: Its folder.
        cfg: Its configuration.
        encoder: The selected weights of its encoder.
    """

    run: RunFolder
    cfg: DictConfig
    encoder: Weights


def mix_with_start(
    run: RunFolder, cfg: DictConfig, encoder: SentenceEncoder, data: DataModule, writes: bool
) -> dict[str, Any]:
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
        The selected share and the dev Spearman of each, as stored with the results.
    """
    checkpoint = run.read_checkpoint("best")
    if ENTRY in checkpoint:
        known: dict[str, Any] = checkpoint[ENTRY]
        return known
    stored = checkpoint["state_dict"].items()
    tuned = {name.removeprefix(ENCODER): value for name, value in stored if name.startswith(ENCODER)}
    start = _start(run, cfg, tuned)
    dev_of = partial(_dev, cfg, encoder, data)
    dev, share, chosen = _select(dev_of, start, tuned, cfg.trainer.wise_ft)
    untuned = dev[0.0] if 0.0 in dev else dev_of(start)
    encoder.load_state_dict(chosen, strict=False)
    mixture = {"share": share, "dev": {f"{s:g}": value for s, value in dev.items()}, "start": untuned}
    if writes:
        weights = checkpoint["state_dict"] | {ENCODER + name: value for name, value in chosen.items()}
        write_checkpoint(run.checkpoint("best"), {**checkpoint, "state_dict": weights, ENTRY: mixture})
    return mixture


def average_runs(folders: Sequence[Path], to: Path, shares: Sequence[float] = ()) -> dict[str, float]:
    r"""Write the average of the weights of runs as a finished run (Wortsman et al. 2022, "Model soups").

    ``shares`` are those of the average in a further one with the weights that the runs started from, as in
    `mix_with_start`. The dev pairs, by which a share is selected, and the test tasks of the report are those
    of the first run.

    Args:
        folders: Run folders.
        to: Folder to write, which must not exist.
        shares: Shares in [0, 1] to try besides 1.

    Returns:
        The dev Spearman times 100 of each run and of each average.

    Raises:
        UserError: Runs or their weights do not fit each other, or data or model cannot be read.
    """
    started = time.monotonic()
    encoder, _ = read_model(str(model_folder(RunFolder(folders[0]))))
    encoder.eval()
    parents = read_parents(folders, encoder)
    first = parents[0]
    data = make_data(first.cfg)
    data.setup()
    dev_of = partial(_dev, first.cfg, encoder, data)
    each = {parent.run.name: dev_of(parent.encoder) for parent in parents}
    tuned = weighted_sum([parent.encoder for parent in parents])
    starts = [_start(parent.run, parent.cfg, parent.encoder) for parent in parents if shares]
    dev, share, weights = _select(dev_of, weighted_sum(starts or [tuned]), tuned, shares)
    encoder.load_state_dict(weights, strict=False)
    with new_folder(to) as inside:
        run, cfg = RunFolder(inside), copy.deepcopy(first.cfg)
        cfg.name = inside.name
        run.save_config(cfg)
        write_model(encoder, run.model(), {}, 0, cfg.evaluation.precision)
        scores = score_data(encoder, data, cfg.evaluation)
        if scores.test_found:
            save_predictions(run, data.tests, scores.test_found)
        save_dev(run, 0, scores.dev_found, selected=True)
        stages = [stage for parent in parents for stage in parent.run.known_metrics().trained_on]
        costs = {cost["run"]: cost for parent in parents for cost in parent.run.costs()}
        details = {
            "averaged": {"runs": [parent.run.name for parent in parents], "share": share},
            **how_scored(encoder, data, cfg, scores),
            "earlier": list(costs.values()),
            **origin(tuple({str(stage): stage for stage in stages}.values()), time.monotonic() - started),
        }
        # Last, since it marks the run as finished.
        run.save_metrics(RunMetrics(scores.test, scores.dev, details))
    return each | {f"average, share {share:g}": value for share, value in dev.items()}


def read_parents(folders: Sequence[Path], encoder: SentenceEncoder) -> list[Parent]:
    """Read the runs to average, and check that their average is a model of the same architecture.

    Args:
        folders: Run folders.
        encoder: The encoder of the first one, whose weights change.

    Raises:
        CheckpointError: A folder is no run, has an adapter, or another model or prompt than the first one, or
            has trained on the dev pairs of the first one, by which averages are selected.
    """
    parents: list[Parent] = []
    for folder in folders:
        run = RunFolder(folder)
        cfg, _ = run.load_part("data"), run.metrics()  # what it was trained on belongs to the average
        if cfg.model.get("adapter") is not None:
            raise CheckpointError(
                f"{run.name} has an adapter ({cfg.model.adapter._target_}). The mean of the factors of LoRA "
                "is not the mean of their products, so an average of adapters is no average of models.",
                hint="Average runs that train all weights.",
            )
        if parents:
            _check_same(parents[0], run, cfg, encoder)
        load_weights(encoder, model_folder(run))
        weights = {name: value.clone() for name, value in encoder.state_dict().items()}
        parents.append(Parent(run, cfg, weights))
    return parents


def weighted_sum(models: Sequence[Weights], factors: Sequence[float] | None = None) -> dict[str, Tensor]:
    r"""Compute :math:`\sum_k f_k \theta_k` in float64, tensor by tensor, in the dtypes of the first model.

    Args:
        models: Weights of models, all with the same names and shapes.
        factors: f, one for each model; None for their mean.

    Returns:
        New tensors. Those without floating-point numbers, such as positions, are those of the first model.
    """
    factors = factors or [1 / len(models)] * len(models)
    result = {name: tensor.clone() for name, tensor in models[0].items()}
    for name, tensor in result.items():
        if tensor.is_floating_point():
            terms = [factor * model[name].double() for factor, model in zip(factors, models, strict=True)]
            result[name] = torch.stack(terms).sum(dim=0).to(tensor.dtype)
    return result


def _check_same(first: Parent, run: RunFolder, cfg: DictConfig, encoder: SentenceEncoder) -> None:
    """Reject a run that computes its vectors in another way, or trained on dev pairs of the first one."""
    own, ours = read_own(ModelFiles(str(model_folder(run)))), encoder.config.as_json()
    theirs = ours if own is None else own.encoding.as_json()
    for key in ours:
        if ours[key] != theirs[key]:
            raise CheckpointError(
                f"{run.name} has {key}={theirs[key]}, but {first.run.name} has {ours[key]}; only runs of the "
                "same model can be averaged."
            )
    seen = describe_seen(first.run.name, first.cfg, cfg)
    if seen is not None:
        raise CheckpointError(f"{run.name} {seen}", hint="Average runs with the same data.seed and dev.")


def _start(run: RunFolder, cfg: DictConfig, tuned: Weights) -> dict[str, Tensor]:
    """Return the encoder's weights before a run, those of the names of the tuned ones."""
    with torch.random.fork_rng(devices=[]):  # weights that no file has, as those of a projection
        torch.manual_seed(cfg.seed)
        encoder = build_encoder(cfg.model, cfg.prompt)
    if cfg.init_from is not None:
        earlier = run.start(cfg.init_from)
        load_weights(encoder, model_folder(earlier, "best" if cfg.trainer.init == "best" else "final"))
    whole = encoder.state_dict()
    return {name: whole[name] for name in tuned}


def _select(
    dev_of: Callable[[Weights], float], start: Weights, tuned: Weights, shares: Sequence[float]
) -> tuple[dict[float, float], float, dict[str, Tensor]]:
    """Select a share of the tuned weights in an average with the start.

    Returns:
        The dev score of each share, 1 first; the best share, of equal ones the first; the average.
    """

    def mix(share: float) -> dict[str, Tensor]:
        return weighted_sum([start, tuned], [1 - share, share])

    dev = {share: dev_of(mix(share)) for share in (1.0, *shares)}
    listed = ", ".join(f"{share:g}: {value:.2f}" for share, value in dev.items())
    log.info("dev by the share of the tuned weights in an average with the start: %s", listed)
    best = max(dev, key=lambda share: dev[share])
    return dev, best, mix(best)


def _dev(cfg: DictConfig, encoder: SentenceEncoder, data: DataModule, weights: Weights) -> float:
    """Return the dev score of weights, which are left in the encoder."""
    precision = encoder.precision
    encoder.load_state_dict(dict(weights), strict=False)
    on_dev = copy.deepcopy(cfg.evaluation)
    on_dev.final = False
    found = score_data(encoder, data, on_dev).dev_score
    encoder.set_precision(precision)  # weights that are loaded later would be rounded to that of the score
    return found

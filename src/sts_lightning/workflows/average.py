"""Averages of the weights of runs, and of a run and what it started from."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch
from omegaconf import DictConfig
from torch import Tensor

from sts_lightning.config.check import check_config, flat
from sts_lightning.config.trust import NOTHING, Trust
from sts_lightning.core.errors import CheckpointError
from sts_lightning.core.files import new_folder
from sts_lightning.data.module import DataModule
from sts_lightning.evaluation.score import how_scored, score
from sts_lightning.models.encoder import SentenceEncoder, freeze
from sts_lightning.models.loading.run import build_encoder, load_from, load_part
from sts_lightning.runs.folder import RunFolder, Which
from sts_lightning.runs.metrics import RunMetrics, as_plain, environment
from sts_lightning.runs.predictions import save_dev, save_predictions
from sts_lightning.training.assembly import make_data
from sts_lightning.workflows.seen_dev_pairs import describe_seen

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
        run: Its folder; of a run of several stages, that of the last one.
        cfg: Its configuration.
        encoder: The weights of its best dev score, those of the encoder, by their names in the checkpoint.
        head: Those of its loss.
    """

    run: RunFolder
    cfg: DictConfig
    encoder: Weights
    head: Weights

    @classmethod
    def of(cls, run: RunFolder, cfg: DictConfig, checkpoint: Mapping[str, Any]) -> Self:
        """Take the weights of a checkpoint apart."""
        encoder, head = (
            {name: value for name, value in checkpoint["state_dict"].items() if name.startswith(start)}
            for start in (ENCODER, "loss.")
        )
        return cls(run, cfg, encoder, head)


def mix_with_start(
    run: RunFolder, cfg: DictConfig, encoder: SentenceEncoder, data: DataModule, writes: bool
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
        The selected share and the dev Spearman of each, as stored with the results.
    """
    checkpoint = run.read_checkpoint("best")
    if ENTRY in checkpoint:
        known: dict[str, Any] = checkpoint[ENTRY]
        return known
    parent = Parent.of(run, cfg, checkpoint)
    start, tuned = _start(parent), parent.encoder
    dev_of = partial(_dev, parent, encoder, data)
    dev = _dev_by_share(dev_of, start, tuned, cfg.trainer.wise_ft)
    selected = max(dev, key=lambda share: dev[share])  # of equal ones the first, which is 1
    untuned = dev[0.0] if 0.0 in dev else dev_of(_mix(start, tuned, 0.0))
    chosen = _mix(start, tuned, selected)
    load_part(encoder, ENCODER, {"state_dict": chosen}, run.checkpoint("best"))
    mixture = {"share": selected, "dev": {f"{s:g}": value for s, value in dev.items()}, "start": untuned}
    if writes:
        weights = {**checkpoint["state_dict"], **chosen}
        run.write_checkpoint("best", {**checkpoint, "state_dict": weights, ENTRY: mixture})
    return mixture


def average_runs(
    folders: Sequence[Path], to: Path, shares: Sequence[float] = (), trust: Trust = NOTHING
) -> dict[str, float]:
    r"""Write the average of the weights of runs as a finished run (Wortsman et al. 2022, "Model soups").

    ``shares`` are those of the average in a further one with the weights that the runs started from, as in
    `mix_with_start`. The dev pairs, by which a share is selected, and the test tasks of the report are those
    of the first run.

    Args:
        folders: Run folders.
        to: Folder to write, which must not exist.
        shares: Shares in [0, 1] to try besides 1.
        trust: What the configurations of the runs may ask for.

    Returns:
        The dev Spearman times 100 of each run and of each average.

    Raises:
        UserError: Runs or their weights do not fit each other, or data or model cannot be read.
    """
    started = time.monotonic()
    parents = read_parents(folders, trust)
    first = parents[0]
    data = make_data(check_config(first.cfg))
    data.setup()
    encoder = load_from(first.run, first.cfg).eval()
    dev_of = partial(_dev, first, encoder, data)
    each = {parent.run.name: dev_of(parent.encoder) for parent in parents}
    tuned = mean([parent.encoder for parent in parents])
    start = mean([_start(parent) for parent in parents]) if shares else tuned
    dev = _dev_by_share(dev_of, start, tuned, shares)
    share = max(dev, key=lambda share: dev[share])
    weights = _mix(start, tuned, share)
    load_part(encoder, ENCODER, {"state_dict": weights}, to)
    heads = [parent.head for parent in parents]
    if all(_shapes(head) == _shapes(first.head) for head in heads):
        weights |= mean(heads)
    with new_folder(to) as inside:
        run, cfg = RunFolder(inside), copy.deepcopy(first.cfg)
        cfg.name = inside.name
        scores = score(encoder, data, cfg.evaluation)
        run.save_config(cfg)
        for which in ("best", "last"):
            run.write_checkpoint(which, {"state_dict": weights, "global_step": 0, "epoch": 0})
        if scores.test is not None:
            save_predictions(run, data.tests, scores.test_cosines, scores.test_values)
        save_dev(run, 0, scores.dev_found, selected=True)
        trained_on = {str(stage): stage for parent in parents for stage in parent.run.trained_on()}
        costs = {cost["run"]: cost for parent in parents for cost in parent.run.costs()}
        details = {
            "averaged": {"runs": [parent.run.name for parent in parents], "share": share},
            **how_scored(encoder, data, cfg),
            "trained_on": as_plain(tuple(trained_on.values())),
            "earlier": list(costs.values()),
            **({} if scores.ranks is None else {"rank": scores.ranks}),
            **environment(),
            "wall_seconds": round(time.monotonic() - started, 1),
        }
        # Last, since it marks the run as finished.
        run.save_metrics(RunMetrics(scores.test, scores.dev, details))
    return each | {f"average, share {share:g}": value for share, value in dev.items()}


def read_parents(folders: Sequence[Path], trust: Trust) -> list[Parent]:
    """Read the runs to average, and check that their average is a model of the same architecture.

    Raises:
        CheckpointError: A folder is no run, has an adapter, or another model or prompt than the first one, or
            has trained on the dev pairs of the first one, by which averages are selected.
    """
    parents: list[Parent] = []
    for folder in folders:
        run = RunFolder(folder).last_stage()
        cfg = run.load_config(trust)
        if cfg.model.get("adapter") is not None:
            raise CheckpointError(
                f"{run.name} has an adapter ({cfg.model.adapter._target_}). The mean of the factors of LoRA "
                "is not the mean of their products, so an average of adapters is no average of models.",
                hint="Average runs that train all weights.",
            )
        parents.append(Parent.of(run, cfg, run.read_checkpoint("best", mmap=True)))
        if not parents[-1].encoder:
            raise CheckpointError(f"{run.name} did not train its encoder (optim.freeze={cfg.optim.freeze}).")
        _check_same(parents[0], parents[-1])
    return parents


def mean(models: Sequence[Weights]) -> dict[str, Tensor]:
    """Average weights; see `weighted_sum`."""
    return weighted_sum(models, [1 / len(models)] * len(models))


def weighted_sum(models: Sequence[Weights], factors: Sequence[float]) -> dict[str, Tensor]:
    r"""Compute :math:`\sum_k f_k \theta_k` in float64, tensor by tensor, in the dtypes of the first model.

    Args:
        models: Weights of models, all with the same names and shapes.
        factors: f, one for each model.

    Returns:
        New tensors. Those without floating-point numbers, such as positions, are those of the first model.

    Raises:
        CheckpointError: Tensors without floating-point numbers differ.
    """
    result = {}
    for name, tensor in models[0].items():
        tensors = [weights[name] for weights in models]
        if tensor.is_floating_point():
            terms = [factor * other.double() for factor, other in zip(factors, tensors, strict=True)]
            result[name] = torch.stack(terms).sum(dim=0).to(tensor.dtype)
        elif all(torch.equal(tensor, other) for other in tensors):
            result[name] = tensor.clone()
        else:
            raise CheckpointError(f"{name} differs, and has no mean since it holds {tensor.dtype}.")
    return result


def _check_same(first: Parent, other: Parent) -> None:
    """Reject a run that computes its vectors in another way, or trained on dev pairs of the first one."""
    for group in ("model", "prompt"):
        ours, theirs = first.cfg[group], other.cfg[group]
        for key in sorted({*ours, *theirs} - {"dropout"}, key=str):  # dropout does not change the vectors
            if ours.get(key) != theirs.get(key):
                raise CheckpointError(
                    f"{other.run.name} has {group}.{key}={theirs.get(key)}, but {first.run.name} has "
                    f"{ours.get(key)}; only runs of the same model can be averaged."
                )
    differing = _shapes(first.encoder).items() ^ _shapes(other.encoder).items()
    if differing:
        raise CheckpointError(
            f"{other.run.name} cannot be averaged with {first.run.name}: {min(differing)[0]} is missing in "
            "one of them or has another shape."
        )
    seen = describe_seen(first.run.name, first.cfg, other.cfg)
    if seen is not None:
        raise CheckpointError(
            f"{other.run.name} {seen}",
            hint="Average runs with the same data.seed and dev, or with dev pairs of their own "
            "(data.dev_path, data.dev_split).",
        )


def _shapes(weights: Weights) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in weights.items()}


def _start(parent: Parent) -> dict[str, Tensor]:
    """Return the encoder's weights before the run, by their names in its checkpoint."""
    cfg = parent.cfg
    with torch.random.fork_rng(devices=[]):  # weights that no file has, as those of a projection
        torch.manual_seed(cfg.seed)
        encoder = build_encoder(cfg.model, cfg.prompt)
    if cfg.init_from is not None:
        earlier = _stage_before(parent.run) or RunFolder(cfg.init_from).last_stage()
        which: Which = "best" if cfg.trainer.init == "best" else "last"
        freeze(encoder, flat(earlier.settings()).get("optim.freeze", "none"))  # what it left may be absent
        load_part(encoder, ENCODER, earlier.read_checkpoint(which), earlier.checkpoint(which))
    whole = {ENCODER + name: value for name, value in encoder.state_dict().items()}
    return {name: whole[name] for name in parent.encoder}


def _stage_before(run: RunFolder) -> RunFolder | None:
    """Return the stage before a later stage of a run, wherever its folder is now."""
    path, before = run.path.resolve(), None
    for stage in RunFolder(path.parent).stages():
        if stage.path.resolve() == path:
            return before
        before = stage
    return None


def _mix(start: Weights, tuned: Weights, share: float) -> dict[str, Tensor]:
    return weighted_sum([start, tuned], [1 - share, share])


def _dev_by_share(
    dev_of: Callable[[Weights], float], start: Weights, tuned: Weights, shares: Sequence[float]
) -> dict[float, float]:
    """Return the dev score of each share of the tuned weights in an average with the start, 1 first."""
    dev = {share: dev_of(_mix(start, tuned, share)) for share in (1.0, *shares)}
    listed = ", ".join(f"{share:g}: {value:.2f}" for share, value in dev.items())
    log.info("dev by the share of the tuned weights in an average with the start: %s", listed)
    return dev


def _dev(parent: Parent, encoder: SentenceEncoder, data: DataModule, weights: Weights) -> float:
    """Return the dev Spearman times 100 of weights, which are left in the encoder."""
    load_part(encoder, ENCODER, {"state_dict": dict(weights)}, parent.run.checkpoint("best"))
    on_dev = copy.deepcopy(parent.cfg.evaluation)
    on_dev.final = False
    return score(encoder, data, on_dev).dev_score

"""The runs whose weights are averaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from sts_lightning.config.trust import Trust
from sts_lightning.errors import CheckpointError
from sts_lightning.models.freezing import freeze
from sts_lightning.models.loading import build_encoder, load_part
from sts_lightning.models.weight_sum import Weights, weighted_sum
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.seen_dev_pairs import describe_seen

ENCODER = "encoder."
"""Prefix of the names of the encoder's weights in a checkpoint."""


@dataclass(frozen=True)
class Parent:
    """A run whose weights are averaged.

    Attributes:
        run: Its folder; of a run of several stages, that of the last one.
        cfg: Its configuration.
        weights: The weights of its best dev score, of the encoder and of the head of its loss.
    """

    run: RunFolder
    cfg: DictConfig
    weights: Weights

    def encoder(self) -> dict[str, Tensor]:
        """Return the weights of the encoder by their names in the checkpoint."""
        return {name: value for name, value in self.weights.items() if name.startswith(ENCODER)}


def read_parents(folders: Sequence[Path], trust: Trust) -> list[Parent]:
    """Read the runs to average, and check that their average is a model of the same kind.

    Args:
        folders: Run folders.
        trust: What their configurations may ask for.

    Raises:
        CheckpointError: A folder is no run, has an adapter, or another model or prompt than the first one, or
            has trained on the dev pairs of the first one, by which averages are selected.
    """
    parents: list[Parent] = []
    for folder in folders:
        run = RunFolder(folder).last_stage()
        cfg = run.load_config(trust)
        if "loss" not in cfg or "data" not in cfg:
            raise CheckpointError(f"{run.name} is an evaluation, which has no weights of its own.")
        if cfg.model.get("adapter") is not None:
            raise CheckpointError(
                f"{run.name} has an adapter ({cfg.model.adapter._target_}). The mean of the factors of LoRA "
                "is not the mean of their products, so an average of adapters is no average of models.",
                hint="Average runs that train all weights.",
            )
        checkpoint = run.read_checkpoint("best", mmap=True)["state_dict"]
        weights = {name: value for name, value in checkpoint.items() if name.startswith((ENCODER, "loss."))}
        if not any(name.startswith(ENCODER) for name in weights):
            raise CheckpointError(f"{run.name} did not train its encoder (freeze={cfg.get('freeze')}).")
        parents.append(Parent(run, cfg, weights))
        _check_same(parents[0], parents[-1])
        _check_dev(parents[0], parents[-1])
    return parents


def _check_same(first: Parent, other: Parent) -> None:
    """Reject a run that computes its vectors in another way; dropout has no part in them."""
    for group in ("model", "prompt"):
        one, two = (OmegaConf.to_container(parent.cfg[group], resolve=True) for parent in (first, other))
        assert isinstance(one, dict)
        assert isinstance(two, dict)
        for key in sorted({*one, *two} - {"dropout"}, key=str):
            if one.get(key) != two.get(key):
                raise CheckpointError(
                    f"{other.run.name} has {group}.{key}={two.get(key)}, but {first.run.name} has "
                    f"{one.get(key)}; only runs of the same model can be averaged."
                )


def _check_dev(first: Parent, other: Parent) -> None:
    """Reject a run of which dev pairs of the first one are, or may be, training pairs."""
    seen = describe_seen(first.run.name, first.cfg.data, other.cfg.data)
    if seen is not None:
        raise CheckpointError(
            f"{other.run.name} {seen}",
            hint="Average runs with the same data.seed (data.seed=0) and dev, or with dev pairs of their own "
            "(data.dev_path, data.dev_split).",
        )


def mean_encoder(parents: Sequence[Parent]) -> dict[str, Tensor]:
    """Average the encoders of runs.

    Returns:
        Weights by their names in a checkpoint.

    Raises:
        CheckpointError: Names or shapes differ.
    """
    try:
        return weighted_sum([parent.encoder() for parent in parents], [1 / len(parents)] * len(parents))
    except ValueError as error:
        names = ", ".join(parent.run.name for parent in parents)
        raise CheckpointError(f"{names} cannot be averaged: {error}.") from error


def mean_start(parents: Sequence[Parent]) -> dict[str, Tensor]:
    """Average the encoders that runs started from, usually the same weights; see `mean_encoder`."""
    starts = [_start(parent) for parent in parents]
    return weighted_sum(starts, [1 / len(starts)] * len(starts))


def mean_head(parents: Sequence[Parent]) -> dict[str, Tensor]:
    """Average the weights of the losses of runs; nothing if their names or shapes differ."""
    heads = [
        {name: value for name, value in parent.weights.items() if not name.startswith(ENCODER)}
        for parent in parents
    ]
    shapes = [{name: value.shape for name, value in head.items()} for head in heads]
    if any(shape != shapes[0] for shape in shapes):
        return {}
    return weighted_sum(heads, [1 / len(heads)] * len(heads))


def _start(parent: Parent) -> dict[str, Tensor]:
    """Return the encoder's weights before the run, by their names in its checkpoint."""
    cfg = parent.cfg
    with torch.random.fork_rng(devices=[]):  # weights that no file has, as those of a projection
        torch.manual_seed(cfg.seed)
        encoder = build_encoder(cfg.model, cfg.prompt)
    if cfg.init_from is not None:
        earlier = _stage_before(parent.run) or RunFolder(cfg.init_from).last_stage()
        kind: Literal["best", "last"] = "best" if cfg.init == "best" else "last"
        freeze(encoder, earlier.settings().get("freeze", "none"))  # what it did not train may be absent
        load_part(encoder, ENCODER, earlier.read_checkpoint(kind), earlier.checkpoint(kind))
    whole = {ENCODER + name: value for name, value in encoder.state_dict().items()}
    return {name: whole[name] for name in parent.encoder()}


def _stage_before(run: RunFolder) -> RunFolder | None:
    """Return the stage before a later stage of a run, wherever its folder is now."""
    stages = [stage.path.resolve() for stage in RunFolder(run.path.resolve().parent).stages()]
    place = stages.index(run.path.resolve()) if run.path.resolve() in stages else 0
    return RunFolder(stages[place - 1]) if place else None

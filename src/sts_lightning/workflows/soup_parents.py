"""The runs whose weights are averaged."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from sts_lightning.config.trust import Trust
from sts_lightning.data.training_files import find_files, weighted
from sts_lightning.errors import CheckpointError, DataError
from sts_lightning.models.freezing import freeze
from sts_lightning.models.loading import build_encoder, load_part
from sts_lightning.models.weight_sum import Weights, weighted_sum
from sts_lightning.runs.folder import RunFolder

ENCODER = "encoder."
"""Prefix of the names of the encoder's weights in a checkpoint."""

DEV_SPLIT = ("seed", "dev_fraction", "limit", "dev_path", "dev_split")
"""Settings of data that decide which of the training pairs become dev pairs."""


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
    """Reject a run of which dev pairs of the first one are training pairs."""
    one, two = first.cfg.data, other.cfg.data
    drawn = "dev_fraction" in one and one.get("dev_path") is None and one.get("dev_split") is None
    ours, theirs = _sources(one), _sources(two)
    other_split = ours != theirs or any(one.get(key) != two.get(key) for key in DEV_SPLIT)
    if drawn and set(ours) & set(theirs) and other_split:
        raise CheckpointError(
            f"{other.run.name} has trained on dev pairs of {first.run.name}: both take them from the "
            "training pairs, with another data.path, data.seed, data.dev_fraction, data.limit or source of "
            "dev pairs.",
            hint="Train the runs with one data.seed (data.seed=0), or give dev pairs (data.dev_path, "
            "data.dev_split).",
        )
    if one.get("dev_path") is not None and os.path.realpath(one.dev_path) in [place for place, *_ in theirs]:
        raise CheckpointError(
            f"{other.run.name} has trained on the dev pairs of {first.run.name} ({one.dev_path}).",
            hint="Average runs that were trained on other pairs.",
        )
    if one.get("dev") == "suite" != two.get("dev", "suite"):
        raise CheckpointError(
            f"{other.run.name} may have trained on dev pairs of {first.run.name}, whose dev=suite holds "
            f"training pairs out; it has dev={two.dev}.",
            hint="Average runs with the same dev.",
        )


def _sources(data: DictConfig) -> list[tuple[str, object, object]]:
    """Return the files that a run was trained on, or the set on the hub with its split and configuration."""
    if data.get("path") is None:
        return []
    path: Any = OmegaConf.to_container(data.path) if OmegaConf.is_config(data.path) else data.path
    weights = weighted(path)
    with contextlib.suppress(DataError):  # they are gone, or on the hub
        weights = find_files(weights)
    return [(os.path.realpath(path), data.get("split"), data.get("config")) for path in weights]


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
        earlier = RunFolder(cfg.init_from).last_stage()
        kind: Literal["best", "last"] = "best" if cfg.init == "best" else "last"
        freeze(encoder, earlier.settings().get("freeze", "none"))  # what it did not train may be absent
        load_part(encoder, ENCODER, earlier.read_checkpoint(kind), earlier.checkpoint(kind))
    whole = {ENCODER + name: value for name, value in encoder.state_dict().items()}
    return {name: whole[name] for name in parent.encoder()}

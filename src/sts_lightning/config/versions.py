"""Configurations of runs of other versions: what this one has renamed, lacks, or has in addition."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from hydra.errors import HydraException
from hydra.utils import get_method
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.build import LOADING, argument_types
from sts_lightning.config.schema import (
    EvaluationConfig,
    OptimConfig,
    PromptConfig,
    TrainConfig,
    TrainerConfig,
)
from sts_lightning.core.conf_folders import PACKAGED
from sts_lightning.core.errors import CheckpointError

log = logging.getLogger(__name__)

MIGRATIONS: dict[str, str] = {}
"""Dotted keys and targets of earlier versions, and what they are called now."""

TYPED: dict[str, type] = {
    "": TrainConfig,
    "optim": OptimConfig,
    "trainer": TrainerConfig,
    "prompt": PromptConfig,
    "evaluation": EvaluationConfig,
}
"""Groups that have the same keys in all runs of a version; the others hold arguments of classes."""


def renamed(values: dict[Any, Any]) -> dict[Any, Any]:
    """Return a configuration, as plain values, with the names that this version has; see `MIGRATIONS`."""
    cfg = OmegaConf.create(values)
    for old, new in MIGRATIONS.items():
        parent, _, key = old.rpartition(".")
        node = OmegaConf.select(cfg, parent) if parent else cfg
        if isinstance(node, DictConfig) and key in node:
            OmegaConf.update(cfg, new, node.pop(key), force_add=True)
    plain: Any = OmegaConf.to_container(cfg)
    for _, node in _built(plain):
        node["_target_"] = MIGRATIONS.get(node["_target_"], node["_target_"])
    return dict(plain)


def adapt(values: dict[Any, Any], source: str) -> DictConfig:
    """Return a configuration of the schema: settings that a run lacks get their defaults.

    Settings that this version lacks are left out, with a warning. An argument that the run lacks takes the
    default of its class: a later version gives a new argument one with which earlier runs stay as they were.

    Args:
        values: The configuration as plain values, which may be built; see `config.trust`.
        source: Where it stands, for messages.

    Raises:
        CheckpointError: A value is of another type than its setting.
    """
    nodes = {name: (values.get(name) if name else values) for name in TYPED}
    known = {name: {field.name for field in fields(schema)} for name, schema in TYPED.items()}
    parts: list[tuple[dict[Any, Any], set[str] | None, str]]
    parts = [(node, known[name], name) for name, node in nodes.items() if isinstance(node, dict)]
    parts += [(node, _arguments(key, node["_target_"]), key) for key, node in _built(values)]
    unknown = []
    for node, names, key in parts:
        for name in [str(name) for name in node if names is not None and name not in names]:
            unknown.append(f"{key}.{name}".removeprefix("."))
            node.pop(name)
    if unknown:
        log.warning("WARNING: %s: left out, since this version lacks it: %s", source, ", ".join(unknown))
    try:
        merged = OmegaConf.merge(OmegaConf.structured(TrainConfig), _defaults(), values)
    except OmegaConfBaseException as error:
        key = str(error.full_key)
        raise CheckpointError(
            f"{source}: its {key} cannot be understood: {str(error).splitlines()[0]}.",
            key=key,
            hint=f"Correct {key} in that file.",
        ) from error
    assert isinstance(merged, DictConfig)
    return merged


@cache
def _defaults() -> DictConfig:
    """Return the defaults of `TYPED` in ``conf``, without those that follow from other settings."""
    values: Any = OmegaConf.to_container(OmegaConf.load(PACKAGED / "train.yaml"))
    for group, file in (("prompt", "none"), ("trainer", "auto")):
        values[group] = OmegaConf.to_container(OmegaConf.load(PACKAGED / group / f"{file}.yaml"))
    for key in ("defaults", "hydra"):
        del values[key]
    return OmegaConf.create({key: value for key, value in values.items() if "${" not in str(value)})


def _built(node: Any, key: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the nodes that build something, with their keys."""
    if isinstance(node, dict) and isinstance(node.get("_target_"), str):
        yield key, node
    for name, value in (
        node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    ):
        yield from _built(value, f"{key}.{name}".removeprefix("."))


def _arguments(key: str, target: str) -> set[str] | None:
    """Return the settings of a class; None if it takes any, or cannot be imported, which building it says."""
    try:
        built = get_method(target)
        names: Mapping[str, Any] = argument_types(built)
        parameters = inspect.signature(built).parameters.values()
    except (HydraException, ImportError, TypeError, ValueError):
        return None
    if any(each.kind is each.VAR_KEYWORD and each.name in names for each in parameters):
        return None
    loading = LOADING if key.startswith("data") else {}
    return {"_target_", "_partial_", "_convert_", "_recursive_", "_args_", *names, *loading}

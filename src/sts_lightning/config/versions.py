"""Configurations of runs of other versions: what this one has renamed, lacks, or has in addition."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection, Iterator
from functools import cache
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.build import LOADING, arguments_of
from sts_lightning.config.folders import PACKAGED
from sts_lightning.config.schema import TrainConfig
from sts_lightning.core.errors import CheckpointError

log = logging.getLogger(__name__)

MIGRATIONS: dict[str, str] = {}
"""Dotted keys and targets of earlier versions, and what they are called now."""


def renamed(values: dict[Any, Any]) -> dict[Any, Any]:
    """Return a configuration, as plain values, with the names that this version has; see `MIGRATIONS`."""
    cfg = OmegaConf.create(values)
    for old, new in MIGRATIONS.items():
        parent, _, key = old.rpartition(".")
        node = OmegaConf.select(cfg, parent)
        if isinstance(node, DictConfig) and key in node:
            OmegaConf.update(cfg, new, node.pop(key), force_add=True)
    plain: Any = OmegaConf.to_container(cfg)
    for _, node in _nodes(plain):
        if isinstance(target := node.get("_target_"), str):  # what others wrote may be anything
            node["_target_"] = MIGRATIONS.get(target, target)
    return dict(plain)


def adapt(values: dict[Any, Any], source: str) -> DictConfig:
    """Return a configuration of the schema: settings that a run lacks get their defaults.

    Settings that this version lacks are left out, with a warning. An argument that the run lacks takes the
    default of its class: a later version gives a new argument one with which earlier runs stay as they were.

    Args:
        values: The configuration as plain values, which may be built; see `config.trust`.
        source: Where it stands, for messages.

    Raises:
        CheckpointError: It lacks a setting without a default, or a value is of another type than its setting.
    """
    merged = OmegaConf.merge(OmegaConf.structured(TrainConfig.structured), _defaults())
    assert isinstance(merged, DictConfig)
    needed = {*OmegaConf.missing_keys(merged), "evaluation"}  # the last one is not there if a file is cut
    if absent := sorted(needed - values.keys()):
        raise CheckpointError(
            f"{source} is not the configuration of a run: it has no {', '.join(absent)}.", key=absent[0]
        )
    unknown = []
    for key, node in _nodes(values):
        known = _known(key, node, merged)
        for name in [name for name in node if known is not None and name not in known]:
            unknown.append(f"{key}.{name}".removeprefix("."))
            node.pop(name)
    if unknown:
        log.warning("WARNING: %s: left out, since this version lacks it: %s", source, ", ".join(unknown))
    try:
        for group, value in values.items():  # one by one: an error of them all may name no key
            OmegaConf.update(merged, group, value)
    except OmegaConfBaseException as error:
        key = str(error.full_key)
        raise CheckpointError(
            f"{source}: its {key} cannot be understood: {str(error).splitlines()[0]}.",
            key=key,
            hint=f"Correct {key} in that file.",
        ) from error
    return merged


@cache
def _defaults() -> DictConfig:
    """Return the defaults of the typed groups in ``conf``, without those that follow from other settings."""
    values: Any = OmegaConf.to_container(OmegaConf.load(PACKAGED / "train.yaml"))
    for group, file in (("prompt", "none"), ("trainer", "auto")):
        values[group] = OmegaConf.to_container(OmegaConf.load(PACKAGED / group / f"{file}.yaml"))
    for key in ("defaults", "hydra"):
        del values[key]
    return OmegaConf.create({key: value for key, value in values.items() if "${" not in str(value)})


def _nodes(node: dict[Any, Any], key: str = "") -> Iterator[tuple[str, dict[Any, Any]]]:
    """Yield a mapping and those in it, with their keys."""
    yield key, node
    for name, value in node.items():
        if isinstance(value, dict):
            yield from _nodes(value, f"{key}.{name}".removeprefix("."))


def _known(key: str, node: dict[Any, Any], schema: DictConfig) -> Collection[str] | None:
    """Return the settings of a group; None if it takes any, or building it says what is wrong."""
    typed = OmegaConf.get_type(OmegaConf.select(schema, key))
    if dataclasses.is_dataclass(typed):
        return {field.name for field in dataclasses.fields(typed)}
    names = arguments_of(node["_target_"]) if "_target_" in node else None
    if names is None or "kwargs" in names:
        return None
    return {"_target_", *names, *(LOADING if key.startswith("data") else ())}

"""Whether a run has trained on the dev pairs of another one, told from their configurations."""

from __future__ import annotations

import contextlib
import os

from omegaconf import DictConfig

from sts_lightning.config.build import accepts, to_container
from sts_lightning.config.check import flatten
from sts_lightning.config.identity import select
from sts_lightning.core.errors import DataError
from sts_lightning.data.sources import find_files, weighted


def describe_seen(name: str, selecting: DictConfig, trained: DictConfig) -> str | None:
    """Describe why a run has, or may have, trained on the dev pairs by which another one selects.

    Args:
        name: Name of the other run.
        selecting: Configuration of the other run.
        trained: Configuration of the run that trained.

    Returns:
        What follows the name of the run in a message; None if it has not.
    """
    data = selecting.data
    drawn = bool(data.get("dev_fraction")) and data.get("dev_path") is None and data.get("dev_split") is None
    ours, theirs = _sources(selecting), _sources(trained)
    other_split = ours != theirs or _split(selecting) != _split(trained)
    if drawn and set(ours) & set(theirs) and other_split:
        return (
            f"has trained on dev pairs of {name}: both take them from the training pairs, with another "
            "path, seed, data.dev_fraction, data.limit or source of dev pairs."
        )
    path = data.get("dev_path")
    if path is not None and os.path.realpath(path) in [source for source, *_ in theirs]:
        return f"has trained on the dev pairs of {name} ({path})."
    if selecting.get("dev") == "suite" != trained.dev and accepts(trained.data.get("_target_"), "dev"):
        return (
            f"may have trained on dev pairs of {name}, whose dev=suite holds training pairs out; it has "
            f"dev={trained.dev}."
        )
    return None


def _split(cfg: DictConfig) -> dict[str, object]:
    """Return the settings of data that decide which of the training pairs become dev pairs."""
    settings = select(flatten({"data": to_container(cfg.data)}), {"dev"})
    return {key: value for key, value in settings.items() if value is not None}


def _sources(cfg: DictConfig) -> list[tuple[str, object, object]]:
    """Return the files that a run was trained on, or the set on the hub with its split and configuration."""
    if cfg.get("path") is None:
        return []
    weights = weighted(to_container(cfg.path))
    with contextlib.suppress(DataError):  # they are gone, or on the hub
        weights = find_files(weights)
    return [(os.path.realpath(path), cfg.data.get("split"), cfg.data.get("config")) for path in weights]

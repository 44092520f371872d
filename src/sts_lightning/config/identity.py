"""What makes two runs the same: the settings that affect the result, and the content of the user's files."""

from __future__ import annotations

import copy
import functools
import glob
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from sts_lightning.config.build import plain
from sts_lightning.config.check import flat

VOLATILE = ("hydra", "data_root", "shared", "papers", "cache_dir", "auxiliary.cache_dir")
"""Keys, also dotted ones, that do not affect the result of a run; ``papers`` names settings that do."""

DIVISION = (
    "trainer.devices",
    "trainer.num_nodes",
    "trainer.micro_batch_size",
    "trainer.chunk_tokens",
)
"""Settings that divide a batch among processes and in time, and leave its gradient as it is.

A resumed run may have others. With dropout, micro batches of another size draw other masks.
"""

OBSERVING = (
    "logger",
    "data.num_workers",
    "trainer.log_every_n_steps",
    "trainer.save_every",
    "trainer.keep_every",
    "callbacks.rank_monitor",
)
"""Settings and groups that record a run, and leave its weights and scores as they are."""

FILES = ("path", "dev_path", "test_path", "test")
"""Settings that may name files of the user's, at the top level, in ``data`` or in a part of joint data."""


def configuration_hash(cfg: DictConfig, named: bool = True) -> str:
    """Return a hash of the settings that define a run and affect its result; see `affecting`.

    Args:
        cfg: Composed configuration, its interpolations not resolved: several settings contain the data root.
        named: Whether the name of the run is one of these settings.
    """
    cfg = copy.deepcopy(cfg)
    with open_dict(cfg):
        for key in ("data_root",) if named else ("data_root", "name"):
            if key in cfg:
                cfg[key] = ""
    text = json.dumps(affecting(flat(defining(cfg))), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def affecting(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that affect the result: without `DIVISION` and `OBSERVING`.

    A run of several stages keeps its division, since it cannot be resumed with another one.

    Args:
        settings: Settings of a run by dotted key.
    """
    free = {*OBSERVING, *DIVISION}
    if any(key.startswith("stages.") for key in settings):
        free -= set(DIVISION)
    if settings.get("trainer.official_gather") is True:  # a W-th of the gradient with W processes
        free -= {"trainer.devices", "trainer.num_nodes"}
    # Regularisers follow the phases that the monitor finds, and other callbacks its ranks.
    watched = (str(value).startswith("rank/") for key, value in settings.items() if key[:9] == "callbacks")
    if settings.get("regularizer._target_") or any(watched):
        free -= {"callbacks.rank_monitor"}
    return {
        key: value
        for key, value in settings.items()
        if key not in free and not key.startswith(tuple(f"{group}." for group in free))
    }


def file_digests(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return a digest of the content of the files that each of `FILES` names, by dotted key.

    What is not on this machine, such as a data set of the hub, has none.

    Args:
        settings: Settings of a run as plain values.
    """
    data = settings.get("data") or {}
    nodes = {"": settings, "data.": data}
    for name, part in (data.get("parts") or {}).items():
        if isinstance(part, Mapping):
            nodes[f"data.parts.{name}."] = part
    digests = {}
    for prefix, node in nodes.items():
        for key in FILES:
            named = node.get(key)
            files = list(_find([named] if isinstance(named, str) else named or ()))
            if files:
                text = "".join(_digest(path, *_version(path)) for path in files)
                digests[f"{prefix}{key}"] = hashlib.sha256(text.encode()).hexdigest()
    return digests


def _find(names: Iterable[Any]) -> Iterable[Path]:
    for name in map(str, names):
        # Path.glob takes no absolute pattern
        found = [name] if Path(name).exists() else sorted(glob.glob(name, recursive=True))  # noqa: PTH207
        for path in map(Path, found):
            yield from sorted(filter(Path.is_file, path.rglob("*"))) if path.is_dir() else [path]


def _version(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


@functools.cache  # the jobs of a sweep have files in common
def _digest(path: Path, size: int, modified: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def defining(cfg: DictConfig) -> dict[str, Any]:
    """Return the settings that define a run, resolved."""
    keys = [key for key in cfg if key not in VOLATILE and not OmegaConf.is_missing(cfg, key)]
    return without_volatile({str(key): plain(cfg[key]) for key in keys})


def without_volatile(node: Mapping[Any, Any], prefix: str = "") -> dict[str, Any]:
    """Return a copy of plain settings without those that do not affect the result of a run."""
    return {
        key: without_volatile(value, f"{prefix}{key}.") if isinstance(value, dict) else value
        for key, value in node.items()
        if f"{prefix}{key}" not in VOLATILE
    }


def move_data(cfg: DictConfig, data_root: str) -> None:
    """Let a stored configuration read its data elsewhere: replace its data root in its paths, in place."""
    former = str(cfg.get("data_root"))

    def moved(value: Any) -> Any:
        if isinstance(value, dict):
            return {moved(name): moved(child) for name, child in value.items()}
        if isinstance(value, list):
            return list(map(moved, value))
        if not isinstance(value, str):
            return value
        return data_root + value.removeprefix(former) if value.startswith(f"{former}/") else value

    with open_dict(cfg):
        for key in {"data", "model", "path"} & set(cfg):
            cfg[key] = moved(plain(cfg[key]))
        cfg.data_root = data_root

"""What makes two runs the same: the settings that affect the result, and a hash of them."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from sts_lightning.config.build import plain

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


def configuration_hash(cfg: DictConfig, named: bool = True) -> str:
    """Return a hash of the settings that define a run.

    Args:
        cfg: Composed configuration, its interpolations not resolved: several settings contain the data root.
        named: Whether the name of the run is one of these settings.
    """
    cfg = copy.deepcopy(cfg)
    with open_dict(cfg):
        for key in ("data_root",) if named else ("data_root", "name"):
            if key in cfg:
                cfg[key] = ""
    text = json.dumps(defining(cfg), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


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

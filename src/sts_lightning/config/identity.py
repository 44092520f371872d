"""What makes two runs the same: the settings that affect the result, and the content of the user's files."""

from __future__ import annotations

import functools
import glob
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from sts_lightning.config.build import to_container
from sts_lightning.config.check import flatten
from sts_lightning.config.schema import (
    COMPONENTS,
    OBSERVERS,
    Affects,
    EvalConfig,
    Settings,
    TrainConfig,
    affects,
)

RESULT: tuple[Affects, ...] = ("result", "dev")
"""What makes another run; a run is resumed with other settings of the other kinds, `FREE`."""

FREE: tuple[Affects, ...] = ("order", "cost", "nothing")

SHOWN: tuple[Affects, ...] = (*RESULT, "order", "cost")
"""What lists, pages and loggers tell of a run."""

FILES = ("path", "dev_path", "test_path", "test")
"""Settings that may name files of the user's, at the top level or in ``data`` and its parts."""


def declared(schema: type[Settings], prefix: str = "") -> dict[str, Affects]:
    """Return what the settings of a schema affect, by dotted key."""
    kinds: dict[str, Affects] = {}
    for name, setting in schema.model_fields.items():
        key, group = f"{prefix}{name}", setting.annotation
        if isinstance(group, type) and issubclass(group, Settings):
            kinds |= declared(group, f"{key}.")
        else:
            kinds[key] = affects(setting)
    return kinds


OF_TRAINING = declared(TrainConfig)
"""What each setting of ``train.py`` that is no argument of a component affects, by dotted key."""

AFFECTED: dict[str, Affects] = {**declared(EvalConfig), **OF_TRAINING, **COMPONENTS}
"""Those of arguments and evaluations too; others affect the result."""


def select(settings: Mapping[str, Any], kinds: Collection[Affects]) -> dict[str, Any]:
    """Return the settings that affect one of several kinds of things.

    Args:
        settings: All settings of a run or an evaluation by dotted key.
        kinds: The kinds.
    """
    # Regularisers follow the phases that the monitor finds, and other callbacks its ranks.
    watched = (str(value).startswith("rank/") for key, value in settings.items() if key[:9] == "callbacks")
    observers: tuple[str, ...] = ()
    if not (settings.get("regularizer._target_") or any(watched)):
        observers = tuple(
            key.removesuffix("_target_")
            for key, value in settings.items()
            if key.startswith("callbacks.") and value in OBSERVERS
        )

    def affected(key: str) -> Affects:
        return "nothing" if key.startswith(observers) else _kind(key)

    return {key: value for key, value in settings.items() if affected(key) in kinds}


@functools.cache
def _kind(key: str) -> Affects:
    key = re.sub(r"^data\.parts\.[^.]+\.", "data.", key)
    while key not in AFFECTED and "." in key:
        key = key.rpartition(".")[0]
    return AFFECTED.get(key, "result")


def configuration_hash(cfg: DictConfig, named: bool = True) -> str:
    """Return a hash of what makes a run; see `identity`.

    Args:
        cfg: Composed configuration.
        named: Whether a run of another name is another one.
    """
    settings = defining(cfg)
    parts = identity(settings, file_digests(settings)) | ({"name": settings.get("name")} if named else {})
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:10]


def identity(settings: Mapping[str, Any], files: Mapping[str, str]) -> dict[str, Any]:
    """Return what makes a run: the settings that affect its result, and the content of its files.

    Args:
        settings: Settings of a run as plain values.
        files: Digests of its files by setting; see `file_digests`.
    """
    contents = {f"{CONTENT}{key}": digest for key, digest in files.items()}
    chosen = select(leaves(settings), RESULT)
    start = Path(str(chosen.get("init_from"))).name
    if re.fullmatch(r"[0-9a-f]{10}", start):  # a hash of what is trained there, wherever it lies
        chosen["init_from"] = start
    return chosen | contents


CONTENT = "the content of "
"""Start of the keys of digests in an `identity`."""


def leaves(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by dotted key, in paths ``${data_root}`` for the folder of the data.

    Args:
        settings: Settings of a run as plain values.
    """
    return flatten(_moved(settings, settings.get("data_root"), "${data_root}"))


def file_digests(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return a digest of the content of the files that each of `FILES` names, by dotted key.

    What is not on this machine, such as a data set of the hub, has none.

    Args:
        settings: Settings of a run as plain values.
    """
    digests = {}
    for prefix, node in _naming(settings):
        for key in FILES:
            named = node.get(key)
            files = list(_find([named] if isinstance(named, str) else named or ()))
            if files:
                text = "".join(_digest(path, path.stat().st_size, path.stat().st_mtime_ns) for path in files)
                digests[f"{prefix}{key}"] = hashlib.sha256(text.encode()).hexdigest()
    return digests


def _naming(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the groups that may name files, with the beginnings of their keys."""
    yield prefix, node
    for key, child in node.items():
        if isinstance(child, Mapping) and (prefix or key == "data") and key not in FILES:
            yield from _naming(child, f"{prefix}{key}.")


def _find(names: Iterable[Any]) -> Iterable[Path]:
    for name in map(str, names):
        # Path.glob takes no absolute pattern
        found = [name] if Path(name).exists() else sorted(glob.glob(name, recursive=True))  # noqa: PTH207
        for path in map(Path, found):
            yield from sorted(filter(Path.is_file, path.rglob("*"))) if path.is_dir() else [path]


@functools.cache  # the jobs of a sweep have files in common
def _digest(path: Path, size: int, modified: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def defining(cfg: DictConfig) -> dict[str, Any]:
    """Return the settings of a run as plain values, resolved, without those that are missing."""
    keys = [key for key in cfg if key != "hydra" and not OmegaConf.is_missing(cfg, key)]
    return {str(key): to_container(cfg[key]) for key in keys}


def move_data(cfg: DictConfig, data_root: str) -> None:
    """Let a stored configuration read its data elsewhere: replace its data root in its paths, in place."""
    former = cfg.get("data_root")
    with open_dict(cfg):
        for key in {"data", "model", "path"} & set(cfg):
            cfg[key] = _moved(to_container(cfg[key]), former, data_root)
        cfg.data_root = data_root


def _moved(value: Any, former: str | None, root: str) -> Any:
    """Return a value with another folder in the paths below a former one."""
    if isinstance(value, Mapping):
        return {_moved(name, former, root): _moved(child, former, root) for name, child in value.items()}
    if isinstance(value, list):
        return [_moved(child, former, root) for child in value]
    if former and isinstance(value, str) and value.startswith(f"{former}/"):
        return root + value.removeprefix(former)
    return value

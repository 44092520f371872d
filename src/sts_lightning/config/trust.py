"""Run folders are data, never code: checks of their configurations against the user's consent.

The stored configurations of a run and of its stages name classes to build (``_target_``), and settings by
which libraries import or download code. Whoever made the folder chose them. `requests` lists whatever is
outside a fixed set that belongs to this project and its libraries; `check` rejects it unless the user has
named it at the call. Only the text is read: nothing that a folder names is imported before it has passed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from sts_lightning.config.allowed import is_known, suspects
from sts_lightning.config.renamed import add_former_settings, update_targets
from sts_lightning.errors import CheckpointError, UntrustedError

CONSENT = {"trust": [], "trust_remote_code": False}
"""Settings that hold consent, with the values that replace them in a stored configuration."""

OPTIONAL = frozenset({"companion.cache_dir"})
"""Settings that save time alone, and that a stored configuration loses where there is no consent to them."""

SHARED = "shared"
"""Key of a stage in the file of the stages: the name of its folder, if other runs share it."""

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_0-9][A-Za-z0-9_]*)*")


@dataclass(frozen=True)
class Trust:
    """Consent of the user for a run folder.

    Attributes:
        names: Dotted names of classes, and keys of the configuration, that the folder may ask for.
        remote_code: Whether code that comes with the folder's model may run.
    """

    names: frozenset[str] = frozenset()
    remote_code: bool = False

    @classmethod
    def of(cls, names: Iterable[str], remote_code: bool) -> Trust:
        """Convert a call's arguments ``trust``, which may be a single name, and ``trust_remote_code``."""
        return cls(frozenset([names] if isinstance(names, str) else names), remote_code)

    def __or__(self, other: Trust) -> Trust:
        """Return the union of two consents."""
        return Trust(self.names | other.names, self.remote_code or other.remote_code)

    def arguments(self) -> tuple[str, ...]:
        """Return the command-line arguments of the same consent; none if nothing is allowed."""
        names = (f"trust=[{','.join(sorted(self.names))}]",) if self.names else ()
        return names + (("trust_remote_code=true",) if self.remote_code else ())


NOTHING = Trust()


@dataclass(frozen=True)
class Request:
    """Something in a configuration that is outside the fixed set.

    Attributes:
        key: The dotted key.
        value: What it asks for.
        why: The reason that it is not taken as data.
        needs: The consent that allows it; None if nothing does.
    """

    key: str
    value: Any
    why: str
    needs: Trust | None = None

    def __str__(self) -> str:
        """Return one line for a message."""
        shown = repr(self.value)
        return f"{self.key}: {shown if len(shown) <= 100 else f'{shown[:97]}...'} ({self.why})"


def requests(values: Mapping[Any, Any]) -> list[Request]:
    """Everything in a run's configuration that is outside the fixed set.

    Args:
        values: The configuration as plain containers, its interpolations not resolved.
    """
    return [request for request in _walk(values, ()) if request.key not in CONSENT]


def wanted(values: Mapping[Any, Any] | DictConfig) -> Trust:
    """Return the consent that a configuration needs.

    Composing a configuration from the command line and the user's own conf/ is consent to what it names.
    """
    if isinstance(values, DictConfig):
        values = _plain(values, resolve=True)
    trust = NOTHING
    for request in requests(values):
        trust |= request.needs or NOTHING
    return trust


def check(values: Mapping[Any, Any], source: str, trust: Trust) -> None:
    """Reject a configuration that asks for more than the user allows.

    Args:
        values: See `requests`.
        source: File, with the part of it, for the message.
        trust: Consent of the user.

    Raises:
        UntrustedError: The message lists every request, and the arguments that would allow all of them.
    """
    found = [
        request
        for request in requests(values)
        if request.needs is None
        or (request.key not in OPTIONAL and not request.needs.names <= trust.names)
        or request.needs.remote_code > trust.remote_code
    ]
    if not found:
        return
    lines = "".join(f"\n  {request}" for request in found)
    if any(request.needs is None for request in found):
        raise UntrustedError(f"{source} is not used: no run of this project has{lines}")
    needed = NOTHING
    for request in found:
        needed |= request.needs or NOTHING
    options = [word for name in sorted(needed.names) for word in ("--trust", name)]
    options += ["--trust-remote-code"] if needed.remote_code else []
    python = [f"trust={sorted(needed.names)}"] if needed.names else []
    python += ["trust_remote_code=True"] if needed.remote_code else []
    raise UntrustedError(
        f"{source} asks for code that is not this project's:{lines}\n"
        "Such code can do whatever you can. If you have read it and want it to run, add "
        f"{' '.join(needed.arguments())} (train, eval), {' '.join(options)} (sts-lightning export) or "
        f"{', '.join(python)} (sts_lightning.load)."
    )


def read_config(path: Path, trust: Trust = NOTHING) -> DictConfig:
    """Read and check a configuration in a run folder; consent that is stored in it counts for nothing.

    Raises:
        CheckpointError: The file cannot be read, or is no configuration.
        UntrustedError: See `check`.
    """
    cfg, values = _read(path)
    check(values, str(path), trust)
    for key, value in CONSENT.items():
        if key in cfg:
            cfg[key] = value
    _drop_optional(cfg, trust)
    return cfg


def read_settings(path: Path) -> dict[Any, Any]:
    """Return the configuration in a run folder as plain values, not checked: for showing, not for building.

    Raises:
        CheckpointError: The file cannot be read, or is no configuration.
    """
    return _read(path)[1]


def read_stages(path: Path, trust: Trust = NOTHING) -> dict[str, DictConfig]:
    """Read the configurations of a folder of stages by their names, checked as `read_config` does.

    Raises:
        CheckpointError: The file cannot be read, or a stage's name is not that of a folder beside it.
        UntrustedError: See `check`.
    """
    cfg, values = _read(path)
    stages = {}
    for name in _names(values, path):
        check(values[name], f"{path}: stage {name}", trust)
        stages[name] = cfg[name]
        stages[name].pop(SHARED, None)
        _drop_optional(stages[name], trust)
    return stages


def _drop_optional(cfg: DictConfig, trust: Trust) -> None:
    for key in OPTIONAL - trust.names:
        if OmegaConf.select(cfg, key, throw_on_missing=False) is not None:
            OmegaConf.update(cfg, key, None)


def stage_folders(path: Path) -> dict[str, str | None]:
    """Return the stages in their file, in order, each with the name of its folder if other runs share it.

    Raises:
        CheckpointError: The file cannot be read, has no stage, or a name would lead out of its folder.
    """
    _, values = _read(path)
    folders: dict[str, str | None] = {}
    for name in _names(values, path):
        shared = values[name].get(SHARED)
        if shared is not None:
            _check_name(shared, path)
        folders[name] = shared
    return folders


def _names(values: Mapping[Any, Any], path: Path) -> list[str]:
    for name, stage in values.items():
        _check_name(name, path)
        if not isinstance(stage, Mapping):
            raise CheckpointError(f"{path}: {name} is not the configuration of a stage.")
    if not values:
        raise CheckpointError(f"{path} has no stage.")
    return list(values)


def _check_name(name: Any, path: Path) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name):
        raise CheckpointError(
            f"{path}: {name!r} is not the name of a stage: letters, digits, '_', '-' and '.' only."
        )


def check_links(run: Path) -> None:
    """Reject a run folder with a link to elsewhere: resuming the run would write and remove files through it.

    Raises:
        UntrustedError: A file or folder in it is such a link.
    """
    for path in run.rglob("*"):
        place = Path(os.path.realpath(path))  # unlike resolve, this bears a link to itself
        if path.is_symlink() and not place.is_relative_to(os.path.realpath(run)):
            raise UntrustedError(f"{path} links to {place}, outside the run folder; remove the link.")


def _read(path: Path) -> tuple[DictConfig, dict[Any, Any]]:
    try:
        cfg = OmegaConf.load(path)
    except (YAMLError, OmegaConfBaseException, ValueError, OSError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    if not isinstance(cfg, DictConfig):
        raise CheckpointError(f"{path} is not a configuration: it has no keys.")
    if not cfg:
        raise CheckpointError(f"{path} is empty.")
    update_targets(cfg)
    add_former_settings(cfg)
    return cfg, _plain(cfg, resolve=False)


def _plain(cfg: DictConfig, resolve: bool) -> dict[Any, Any]:
    values = OmegaConf.to_container(cfg, resolve=resolve)
    assert isinstance(values, dict)
    return values


def _walk(node: Any, path: tuple[str, ...]) -> Iterator[Request]:
    key = ".".join(path)
    if isinstance(node, str) and "${" in node:
        yield Request(key, node, "an interpolation; a stored configuration is resolved")
    elif isinstance(node, Mapping):
        yield from _walk_settings({str(name): value for name, value in node.items()}, path)
    elif isinstance(node, Sequence) and not isinstance(node, str):
        for index, value in enumerate(node):
            yield from _walk(value, (*path, str(index)))


def _walk_settings(node: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[Request]:
    for name, value in node.items():
        here = (*path, name)
        key = ".".join(here)
        if name == "_target_":
            yield from _target(value, path)
        elif re.fullmatch(r"_\w+_", name):
            yield _by_key(here, value, "an instruction to Hydra")
        elif name == "trust_remote_code" and value not in (False, None):
            yield Request(key, value, "code that comes with the model", Trust(remote_code=True))
        yield from _walk(value, here)
    for name, why in suspects(node, path):
        yield _by_key((*path, name), node[name], why)


def _by_key(path: tuple[str, ...], value: Any, why: str) -> Request:
    key = ".".join(path)
    return Request(key, value, why, Trust(frozenset([key])) if IDENTIFIER.fullmatch(key) else None)


def _target(value: Any, path: tuple[str, ...]) -> Iterator[Request]:
    key = ".".join((*path, "_target_"))
    if not isinstance(value, str) or not IDENTIFIER.fullmatch(value):
        yield Request(key, value, "not the name of a class")
    elif not is_known(value, path):
        yield Request(key, value, "not a class that this project builds here", Trust(frozenset([value])))

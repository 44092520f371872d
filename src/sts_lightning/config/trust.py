"""Run folders are data, never code: checks of their configurations against the user's consent.

The stored configurations of a run and of its stages name classes to build (``_target_``), and settings by
which libraries import or download code. Whoever made the folder chose them.

- For its encoder (load, score, eval, init_from, teachers) only ``model`` and ``prompt`` are read: loss, data,
  loggers, callbacks and all other parts are not built, so that nothing has to be known about them.
- To resume a run, or to build its data, all parts are read.

What may be built without consent is what this project's own ``conf`` names, each class where it does.
Whatever else a folder asks for is rejected unless the user has named it at the call. Only the text is read:
nothing that a folder names is imported before it has passed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from operator import or_
from pathlib import Path
from typing import Any, get_args

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.core.choices import Attention
from sts_lightning.core.conf_folders import PACKAGED
from sts_lightning.core.errors import CheckpointError, UntrustedError

ENCODER = ("model", "prompt")
"""Parts of a configuration from which an encoder is built."""

NOT_OF_ENCODER = ("loss", "regularizer", "auxiliary", "trainer", "logger", "callbacks")
"""Parts that a configuration loses where an encoder alone is wanted, so that none can be built by mistake."""

TEXT = {
    "model.adapter": (
        *("task_type", "peft_type", "bias", "target_modules", "exclude_modules", "modules_to_save"),
        *("layers_pattern", "target_parameters", "init_lora_weights", "rank_pattern", "alpha_pattern"),
    ),
    "model.config": (
        *("hidden_act", "hidden_activation", "activation_function", "position_embedding_type"),
        *("rope_scaling", "rope_parameters", "layer_types"),
    ),
}
"""Settings whose text is a choice or a layer's name; by text of others, the libraries may load code."""

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
        names = [word for name in sorted(self.names) for word in ("--trust", name)]
        return (*names, "--trust-remote-code") if self.remote_code else tuple(names)


NOTHING = Trust()


@dataclass(frozen=True)
class Request:
    """Something in a configuration that needs consent.

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


def requests(values: Mapping[Any, Any], encoder_only: bool = False) -> list[Request]:
    """Return everything in a run's configuration that needs consent.

    Args:
        values: The configuration as plain containers, its interpolations not resolved.
        encoder_only: Whether nothing but its encoder is going to be built.
    """
    everything = list(_walk(values, ()))
    if not encoder_only:
        return everything
    return [each for each in everything if each.key.partition(".")[0] in ENCODER or each.needs is None]


def wanted(values: Mapping[Any, Any] | DictConfig) -> Trust:
    """Return the consent that a configuration needs.

    Composing a configuration from the command line and the user's own conf/ is consent to what it names.
    """
    if isinstance(values, DictConfig):
        values = _plain(values, resolve=True)
    return _together(requests(values))


def _together(asked: Iterable[Request]) -> Trust:
    return reduce(or_, (request.needs for request in asked if request.needs is not None), NOTHING)


def check(values: Mapping[Any, Any], source: str, trust: Trust, encoder_only: bool = False) -> None:
    """Reject a configuration that asks for more than the user allows.

    Args:
        values: See `requests`.
        source: File, with the stage in it, for the message.
        trust: Consent of the user.
        encoder_only: See `requests`.

    Raises:
        UntrustedError: The message lists every request, and the arguments that would allow all of them.
    """
    asked = [
        request
        for request in requests(values, encoder_only)
        if request.needs is None or request.needs | trust != trust
    ]
    if not asked:
        return
    lines = "".join(f"\n  {request}" for request in asked)
    if any(request.needs is None for request in asked):
        raise UntrustedError(f"{source} is not used: no run of this project has{lines}")
    needed = _together(asked)
    python = [f"trust={sorted(needed.names)}"] if needed.names else []
    python += ["trust_remote_code=True"] if needed.remote_code else []
    raise UntrustedError(
        f"{source} asks for code that is not this project's:{lines}\n"
        "Such code can do whatever you can. If you have read it and want it to run, add "
        f"{' '.join(needed.arguments())} (train, eval, sts-lightning export) or "
        f"{', '.join(python)} (sts_lightning.load)."
    )


def read_config(path: Path, trust: Trust = NOTHING, encoder_only: bool = False) -> DictConfig:
    """Read and check a configuration in a run folder.

    Args:
        path: Its file.
        trust: Consent of the user.
        encoder_only: Whether nothing but its encoder is going to be built; other parts are left out.

    Raises:
        CheckpointError: The file cannot be read, or is no configuration.
        UntrustedError: See `check`.
    """
    cfg, values = _read(path)
    check(values, str(path), trust, encoder_only)
    for key in NOT_OF_ENCODER if encoder_only else ():
        cfg.pop(key, None)
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
    for name in stage_folders(path):
        check(values[name], f"{path}: stage {name}", trust)
        stages[name] = cfg[name]
        stages[name].pop(SHARED, None)
    return stages


def stage_folders(path: Path) -> dict[str, str | None]:
    """Return the stages in their file, in order, each with the name of its folder if other runs share it.

    Raises:
        CheckpointError: The file cannot be read, or a name would lead out of its folder.
    """
    _, values = _read(path)
    folders: dict[str, str | None] = {}
    for name, stage in values.items():
        if not isinstance(stage, Mapping):
            raise CheckpointError(f"{path}: {name} is not the configuration of a stage.")
        shared = folders[name] = stage.get(SHARED)
        for folder in (name, name if shared is None else shared):
            if not isinstance(folder, str) or not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", folder):
                raise CheckpointError(
                    f"{path}: {folder!r} is not the name of a stage: letters, digits, '_', '-' and '.' only."
                )
    return folders


def check_links(run: Path) -> None:
    """Reject a run folder with a link to elsewhere: resuming the run would write and remove files through it.

    ``checkpoints`` may lie elsewhere, as on the fast disk of a cluster: in a folder of the same user that
    holds checkpoints alone, and not in another run.

    Raises:
        UntrustedError: A file or folder in it is such a link.
    """
    for path in run.rglob("*"):
        target = Path(os.path.realpath(path))  # unlike resolve, this bears a link to itself
        if not path.is_symlink() or target.is_relative_to(os.path.realpath(run)):
            continue
        if path.name != "checkpoints":
            raise UntrustedError(f"{path} links to {target}, outside the run folder; remove the link.")
        user = getattr(os, "getuid", lambda: 0)()
        if not (
            target.is_dir()
            and path.lstat().st_uid == target.stat().st_uid == user
            and all(_is_checkpoint(entry) for entry in target.iterdir())
            and not (target.parent / "config.yaml").exists()
        ):
            raise UntrustedError(
                f"{path} links to {target}, outside the run folder; remove the link. Checkpoints may lie "
                "elsewhere in an existing folder of yours that holds nothing but *.ckpt files of this run."
            )


def _is_checkpoint(path: Path) -> bool:
    """Return whether a file is a checkpoint, or one that a process was writing."""
    named = re.fullmatch(r"(best|last|step_[0-9]+)\.ckpt|\.(best|last|step_[0-9]+)\.ckpt\.[0-9]+", path.name)
    return named is not None and path.is_file() and not path.is_symlink()


def _read(path: Path) -> tuple[DictConfig, dict[Any, Any]]:
    try:
        cfg = OmegaConf.load(path)
    except (yaml.YAMLError, OmegaConfBaseException, ValueError, OSError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    if not isinstance(cfg, DictConfig):
        raise CheckpointError(f"{path} is not a configuration: it has no keys.")
    if not cfg:
        raise CheckpointError(f"{path} is empty.")
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
        for name, value in node.items():
            yield from _setting(str(name), value, path, node.get("_target_"))
            yield from _walk(value, (*path, str(name)))
    elif isinstance(node, Sequence) and not isinstance(node, str):
        for index, value in enumerate(node):
            yield from _walk(value, (*path, str(index)))


def _setting(name: str, value: Any, path: tuple[str, ...], target: Any) -> Iterator[Request]:
    """Yield a request if a setting names code, or may make a library load code or write elsewhere.

    Args:
        name: Its last key.
        value: Its value.
        path: Keys that lead to it.
        target: Target of the node that it belongs to, if any.
    """
    key, parent, plain = ".".join((*path, name)), ".".join(path), _is_plain(value)
    by_key = Trust(frozenset([key])) if IDENTIFIER.fullmatch(key) else None
    if name == "_target_":
        if not isinstance(value, str) or not IDENTIFIER.fullmatch(value):
            yield Request(key, value, "not the name of a class")
        elif _arguments(value, path) is None:
            yield Request(key, value, "not a class that this project builds here", Trust(frozenset([value])))
    elif re.fullmatch(r"_\w+_", name):
        yield Request(key, value, "an instruction to Hydra", by_key)
    elif name == "trust_remote_code" and value not in (False, None):
        yield Request(key, value, "code that comes with the model", Trust(remote_code=True))
    elif parent in TEXT:
        attention = name.removeprefix("_") == "attn_implementation" and value in get_args(Attention)
        imports = name == "megatron_config" and value  # peft imports a module if it is true
        if imports or not (plain or attention or name in TEXT[parent]):
            yield Request(key, value, "may make a library load code", by_key)
    elif key == "auxiliary.cache_dir" and value is not None:
        yield Request(key, value, "a folder that is written to", by_key)
    elif path[:1] in (("logger",), ("callbacks",)) and not plain:
        # The name of a run or of a metric, but no path, nor an argument through which a library does more.
        known = _arguments(target, path)
        if known is not None and (name not in known or not isinstance(value, str) or _leads_out(value)):
            yield Request(key, value, "may lead out of the run folder", by_key)


def _arguments(target: Any, path: tuple[str, ...]) -> frozenset[str] | None:
    """Return the arguments that this project's ``conf`` gives a target; None if it has none there.

    Args:
        target: Dotted name of the target.
        path: Keys that lead to the node with the target.
    """
    group, depth = (path[0] if path else ""), len(path)
    if group == "model" and depth > 1 and path != ("model", "adapter"):
        return None
    if group == "loss" or path[:2] == ("data", "parts"):  # terms of a loss are losses, parts of data are data
        depth = 1
    return _targets(group).get((depth, target)) if isinstance(target, str) else None


@cache
def _targets(group: str) -> Mapping[tuple[int, str], frozenset[str]]:
    """Return the arguments of the targets in a group's files by depth and name of the target.

    Names are compared exactly, each where ``conf`` has it: a prefix would also admit everything that a module
    imports.
    """
    arguments: dict[tuple[int, str], frozenset[str]] = {}

    def add(node: Any, depth: int) -> None:
        if isinstance(node, dict):
            if "_target_" in node:
                key = depth, str(node["_target_"])
                arguments[key] = arguments.get(key, frozenset()) | node.keys()
            for child in node.values():
                add(child, depth + 1)

    if re.fullmatch(r"[a-z]+", group):  # a folder of conf/ itself, none that a key leads to
        for path in (PACKAGED / group).glob("*.yaml"):
            add(yaml.safe_load(path.read_text("utf-8")), 1)
    return arguments


def _is_plain(value: Any) -> bool:
    """Return whether a value is a number, a boolean, null, a list of these, or an empty mapping."""
    if isinstance(value, Mapping):
        return not value
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float)


def _leads_out(value: str) -> bool:
    return Path(value).is_absolute() or ".." in Path(value).parts

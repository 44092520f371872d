"""Names of settings: listing, suggestions for unknown ones, and the overrides of a stage."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from sts_lightning.errors import ConfigError

OPTIONS = {
    "plan": "--plan, or --plan=CARD, of train.py -m",
    "stage": "--stage NAME of train.py",
    "share_stages": "--share-stages, or --no-share-stages, of train.py",
    "trust": "--trust NAME",
    "trust_remote_code": "--trust-remote-code",
    "debug": "--debug",
    "resume": "resume=RUN of train.py",
}
"""Options of the commands, which are no settings, by names by which they could be taken for such."""

_BARE = re.compile(r"[A-Za-z0-9_./:@%+~ -]+")


def suggest(key: str, known: Iterable[str]) -> str:
    """Return the closest known keys as a question.

    Keys of the same group come first. If no key is similar, those of the group are listed, or all if they are
    few.
    """
    known = list(known)
    group, _, name = key.rpartition(".")
    siblings = [other for other in known if group and other.rpartition(".")[0] == group]
    close = difflib.get_close_matches(key, siblings, n=3, cutoff=0.8)
    # Often only the group is missing or wrong: max_steps for trainer.max_steps.
    close += [other for other in known if other.rpartition(".")[2] == name and other not in close]
    if not close and siblings:
        names = [other.rpartition(".")[2] for other in siblings]
        close = [f"{group}.{other}" for other in difflib.get_close_matches(name, names, n=3)]
        if not close and len(names) <= 20:
            return f"Settings of {group}: {', '.join(names)}."
    close = close or difflib.get_close_matches(key, known, n=3)
    if close:
        return f"Did you mean {' or '.join(close)}?"
    return f"There are: {', '.join(known)}." if 0 < len(known) <= 20 else ""


def unknown_key(key: str, suggestion: str) -> ConfigError:
    """Return the error for a key that does not exist.

    Args:
        key: Dotted key as given.
        suggestion: Result of `suggest`.
    """
    option = OPTIONS.get(key)
    hint = suggestion if option is None else f"Did you mean the option {option}?"
    return ConfigError(f"{key}: no such setting.", key=key, hint=hint)


def flat(values: Mapping[Any, Any], prefix: str = "") -> dict[str, Any]:
    """Return the leaves of nested plain settings by dotted key; an empty group has none."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        found |= flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return found


def flat_keys(cfg: DictConfig, prefix: str = "") -> list[str]:
    """Return all keys of a configuration in dotted form."""
    keys = []
    for key in map(str, cfg):
        if key == "_target_":
            continue
        keys.append(f"{prefix}{key}")
        node = cfg._get_node(key)
        if isinstance(node, DictConfig) and not node._is_missing() and not node._is_none():
            keys += flat_keys(node, f"{prefix}{key}.")
    return keys


def path_override(key: str, path: str | Path) -> str:
    """Return ``key=path`` as Hydra reads it: quoted where a bare word could not have its characters."""
    text = str(path)
    if _BARE.fullmatch(text) and text == text.strip():
        return f"{key}={text}"
    if '"' not in text and "\\" not in text:
        return f'{key}="{text}"'  # a shell, too, can quote this simply
    # A backslash is one, but for those before a quote.
    quoted = re.sub(r"(\\*)('|$)", lambda end: end[1] * 2 + end[2].replace("'", "\\'"), text)
    return f"{key}='{quoted}'"


def stage_overrides(overrides: Iterable[str], experiment: str) -> list[str]:
    """Return the overrides of one stage of a run: its experiment, and those common to all stages."""
    own = ("experiment=", "stages.", "name=")
    return [
        f"experiment={experiment}",
        *(text for text in overrides if not text.lstrip("+~").startswith(own)),
    ]

"""What distinguishes the settings of runs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sts_lightning.config.identity import VOLATILE

Settings = Mapping[str, Any]
"""Values by dotted key."""

NOT_SHOWN = (*VOLATILE, "name")
"""Keys that tell nothing about a run."""

TARGET = "_target_"

STAGE = "stages."
"""Start of the keys of earlier stages, ``stages.NAME.KEY``."""


def flat(values: Mapping[Any, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings by dotted key, without those that tell nothing about a run."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if name in NOT_SHOWN:
            continue
        if isinstance(value, Mapping) and value:
            found |= flat(value, f"{name}.")
        else:
            found[name] = value
    return found


def distinguishing(runs: Sequence[Settings]) -> list[dict[str, Any]]:
    """Return for each of several runs the settings in which it differs from others.

    A group of another class, such as a loss, is named by its class. Its settings are only compared with those
    of groups of the same class, and those of an earlier stage with those of runs that have that stage.
    """
    values: dict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
    for settings in runs:
        for key, value in settings.items():
            values[key, _classes(settings, key)][as_json(value)] = value
    absent = {
        place
        for place in values
        for settings in runs
        if place[0] not in settings
        and _classes(settings, place[0]) == place[1]
        and _has_stage(settings, place[0])
    }
    return [
        {
            key.removesuffix(f".{TARGET}"): _class_name(value) if key.endswith(TARGET) else value
            for key, value in settings.items()
            if len(values[key, _classes(settings, key)]) > 1 or (key, _classes(settings, key)) in absent
        }
        for settings in runs
    ]


def _classes(settings: Settings, key: str) -> str:
    """Return the classes of the groups that a key lies in, but not the class that it names itself."""
    parts = key.split(".")
    parents = [".".join(parts[:count]) for count in range(1, len(parts))]
    targets = [f"{parent}.{TARGET}" for parent in parents]
    return json.dumps([settings.get(target) for target in targets if target != key], default=str)


def _has_stage(settings: Settings, key: str) -> bool:
    """Whether settings have the stage that a key is of, if it is of an earlier one."""
    if not key.startswith(STAGE):
        return True
    stage = key[: key.index(".", len(STAGE)) + 1]
    return any(other.startswith(stage) for other in settings)


def _class_name(target: Any) -> str:
    return str(target).rpartition(".")[2]


def as_json(value: Any) -> str:
    """Return a value as text that is equal for equal values."""
    return json.dumps(value, sort_keys=True, default=str)


def shown(value: Any) -> str:
    """Return a value as it is written on the command line."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)

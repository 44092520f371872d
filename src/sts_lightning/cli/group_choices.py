"""Choices of configuration groups on the command line, checked before Hydra composes them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, QuotedString
from hydra.errors import HydraException

from sts_lightning.config.check import path_override, suggest
from sts_lightning.core.conf_folders import files_of
from sts_lightning.core.errors import ConfigError

SEVERAL = ("callbacks", "logger")
"""Groups of which a run may have several choices, or none, given as a list."""

ELSEWHERE = ("--config-path", "-cp", "hydra.searchpath")
"""Beginnings of arguments that name further folders of choices."""

ANY_MODEL = " Any other is model=encoder model.name=ID, or model=decoder for a decoder."
"""What the list of models leaves out."""


def check_choices(arguments: Iterable[str]) -> None:
    """Reject a group that is given anything but the names of its files.

    Hydra's own messages do not say which argument is at fault, and it ignores a missing optional choice.

    Args:
        arguments: Command line; what is no override is left to Hydra.

    Raises:
        ConfigError: A choice does not exist, or is no name.
    """
    arguments = list(arguments)
    if any(argument.startswith(ELSEWHERE) for argument in arguments):
        return  # Hydra finds choices of the user's own
    parser = OverridesParser.create()
    for argument in arguments:
        try:
            override = parser.parse_override(argument)
        except HydraException:  # an option of Hydra's such as -m, or a mistake that it reports itself
            continue
        group = override.key_or_group
        choices = list(files_of(group))
        if not (group and choices) or group.startswith("hydra/") or override.is_delete():
            continue
        for value in _values(override):
            _check(argument, group, value, choices)


def _values(override: Override) -> Sequence[Any]:
    """Return the values of an override: those of a sweep over choices, or the one that is given."""
    if not override.is_sweep_override():
        return [override.value()]
    if not isinstance(override.value(), ChoiceSweep):
        return []
    return [item.text if isinstance(item, QuotedString) else item for item in override.sweep_iterator()]


def _check(argument: str, group: str, value: Any, choices: list[str]) -> None:
    if isinstance(value, dict):  # values of the settings themselves, which the schema checks
        return
    known = ", ".join(choices)
    for name in value if group in SEVERAL and isinstance(value, list) else [value]:
        if not isinstance(name, str):
            raise ConfigError(f"{argument}: {group} is chosen by name among {known}.", key=group)
        if name not in choices:
            listed = f"There are: {known}.{ANY_MODEL if group == 'model' else ''}"
            hint = _own(group, name) or suggest(name, choices) or listed
            noun = "callback" if group == "callbacks" else group
            raise ConfigError(f"{argument}: there is no {noun} named {name!r}.", key=group, hint=hint)


def _own(group: str, name: str) -> str:
    """Return how a model, file or template of the user's own is given; empty if the name is of none."""
    elsewhere = "/" in name or (bool(name) and Path(name).exists())
    if group == "model" and elsewhere:
        setting = shlex.quote(path_override("model.name", name))
        return f"Any model is model=encoder {setting}, or model=decoder for a decoder."
    if group == "data" and (elsewhere or Path(name).suffix):
        setting = shlex.quote(path_override("path", name))
        if Path(name).suffix:
            return f"Scored pairs of your own are data=pairs_file {setting}."
        return f"Scored pairs of the hub or of a folder are data=pairs_hub {setting}."
    if group == "prompt" and (" " in name or "{" in name):
        return f"A template of your own is {shlex.quote(path_override('prompt.template', name))}."
    return ""

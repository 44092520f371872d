"""Plain messages for what Hydra and OmegaConf say of overrides that do not fit the configuration."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.util import find_spec

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import ConfigCompositionException, HydraException
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.conf_folders import Entry, command_line, files_of
from sts_lightning.config.composing import composing
from sts_lightning.config.keys import flat_keys, suggest, unknown_key
from sts_lightning.config.override_syntax import syntax_error
from sts_lightning.errors import ConfigError

TYPES = {
    "converted to Integer": "int",
    "converted to Float": "float",
    "not a valid bool": "bool",
    "to string": "str",
    "to Dict[": "dict",
}
"""Type of a setting by OmegaConf's words for a value that does not have it."""


def explain(error: Exception, entry: Entry, overrides: Sequence[str]) -> ConfigError:
    """Return a composition error as a `ConfigError`, with the nearest known keys where a key is unknown.

    Args:
        error: Error of Hydra or OmegaConf.
        entry: Command whose configuration was composed.
        overrides: Overrides as on its command line.
    """
    if "In 'hydra/sweeper/search': Could not" in str(error) and find_spec("optuna") is None:
        return ConfigError(
            "hydra/sweeper=search needs Optuna's sweeper.", hint="pip install 'sts-lightning[optuna]'."
        )
    if (wrong := syntax_error(error, entry)) is not None:
        return wrong
    if isinstance(error.__cause__, ConfigError):  # raised by a launcher as Hydra built it
        return error.__cause__
    if isinstance(error, OmegaConfBaseException) and error.full_key:
        return ConfigError(f"{error.full_key}: {str(error).splitlines()[0]}", key=str(error.full_key))
    cause = error.__cause__
    value = re.match(r"Error merging override \+{0,2}((?P<key>[\w.]+)=.*)", str(error), re.DOTALL)
    if value is not None and cause is not None:
        known = _known_keys(entry, value["key"], overrides)
        return _wrong_value(value[1], value["key"], str(cause), known)
    unknown = re.search(r"Could not override '([^']+)'", str(error))
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if unknown is None or not isinstance(error, ConfigCompositionException):
        detail = (
            ""
            if cause is None or str(cause).splitlines()[0] in str(error)
            else f" {str(cause).splitlines()[0]}"
        )
        return ConfigError(f"{' '.join(lines)}{detail}")
    key = unknown.group(1)
    if key.partition(".")[0] == "stages":
        hint = "A stage's settings are added with +, as in +stages.stage2.optim.lr=1e-4."
        return unknown_key(key, hint)
    known = _known_keys(entry, key, overrides)
    if cause is not None and key in known:
        return ConfigError(f"{key}: {str(cause).splitlines()[0]}", key=key)
    suggestion = _suggest_choice(key, known) or suggest(key, known)
    usage = f"See `{command_line(entry, '--help')}`."
    return unknown_key(key, f"{suggestion} {usage}" if suggestion else usage)


def _wrong_value(setting: str, key: str, cause: str, known: Iterable[str]) -> ConfigError:
    """Return the error for a value that does not have the type of its setting.

    Args:
        setting: Setting as given.
        key: Its dotted key.
        cause: What OmegaConf says of it.
        known: Dotted keys that the configuration has.
    """
    kind = next((name for words, name in TYPES.items() if words in cause), None)
    if kind is not None:
        return ConfigError(f"{setting} is not of type {kind}.", key=key)
    below = [other for other in known if other.startswith(f"{key}.")]
    if below:
        return ConfigError(f"{setting}: {key} has settings of its own, such as {below[0]}.", key=key)
    if "is not Optional" in cause:
        return ConfigError(f"{setting}: {key} needs a value; leave it out for the default.", key=key)
    return ConfigError(f"{setting}: {cause.splitlines()[0]}.", key=key)


def _known_keys(entry: Entry, key: str, overrides: Sequence[str]) -> list[str]:
    """Return the keys of the configuration composed without the failed override and those of its group."""
    from hydra import compose

    group = key.partition(".")[0]
    try:
        others = [
            str(override.input_line)
            for override in OverridesParser.create().parse_overrides(list(overrides))
            if override.key_or_group != key
            and not override.key_or_group.startswith(f"{group}.")
            and not override.is_sweep_override()
        ]
        with composing():
            return flat_keys(compose(entry, others, return_hydra_config=key.startswith("hydra.")))
    except (HydraException, OmegaConfBaseException):
        return []


def _suggest_choice(key: str, known: Iterable[str]) -> str:
    """Return what to choose where a setting belongs to a group that has none, such as ``regularizer=none``.

    Args:
        key: Dotted key as given.
        known: Dotted keys that the configuration has.

    Returns:
        A hint with the choices that have the setting; empty if the group has settings, or none of its choices
        has this one.
    """
    group, _, name = key.partition(".")
    if any(other.startswith(f"{group}.") for other in known):
        return ""
    first = re.compile(rf"^{re.escape(name.partition('.')[0])}:", re.MULTILINE)
    having = [choice for choice, path in files_of(group).items() if name and first.search(path.read_text())]
    return f"It belongs to {' and '.join(f'{group}={choice}' for choice in having)}." if having else ""

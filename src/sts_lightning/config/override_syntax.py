"""Plain messages for overrides that Hydra cannot read, whose parser speaks of its own tokens."""

from __future__ import annotations

import re
import shlex

from hydra.errors import ConfigCompositionException, OverrideParseException

from sts_lightning.conf_folders import Entry
from sts_lightning.config.keys import path_override
from sts_lightning.errors import ConfigError

_NAME = re.compile(r"[~+]{0,2}[\w./@:\-]+")
_SEVERAL = re.compile(r"Ambiguous value for argument '(.*?)'\s*\n", re.DOTALL)
_SWEEP = re.compile(r"Sweep parameters '(.*)' requires --multirun", re.DOTALL)


def syntax_error(error: Exception, entry: Entry) -> ConfigError | None:
    """Return what is wrong with an override that cannot be read, and how to write it; None for other errors.

    Args:
        error: Error of Hydra.
        entry: Command whose configuration was composed.
    """
    if isinstance(error, OverrideParseException):
        return _unreadable(str(error.override), entry)
    if not isinstance(error, ConfigCompositionException):
        return None
    if several := _SEVERAL.search(str(error)):
        key, _, values = several[1].partition("=")
        return ConfigError(
            f"{several[1]} gives {key} several values, which are a sweep.",
            key=key,
            hint=f"Add -m to run each, write a list as {shlex.quote(f'{key}=[{values}]')}, or quote a text "
            f"with a comma: {shlex.quote(path_override(key, values))}.",
        )
    if sweep := _SWEEP.search(str(error)):
        key = sweep[1].partition("=")[0]
        return ConfigError(f"{sweep[1]} is a sweep.", key=key, hint="Add -m to run each of its values.")
    return None


def _unreadable(override: str, entry: Entry) -> ConfigError:
    key, equals, value = override.partition("=")
    if not equals:
        run = "ckpt=RUN" if entry == "eval" else "resume=RUN"
        hint = f"A setting is given as key=value, a run folder as {run}."
        return ConfigError(f"{override} has no value.", hint=hint)
    if _NAME.fullmatch(key) is None:
        return ConfigError(f"{override}: {key!r} cannot be the name of a setting.")
    typed = shlex.quote(path_override(key, value))
    return ConfigError(
        f"{override}: Hydra cannot read this value.",
        key=key.lstrip("~+"),
        hint=f"A text with such characters needs quotes within those for the shell: {typed}.",
    )

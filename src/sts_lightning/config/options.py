"""Options of the commands that Hydra reads: what to do with a configuration, which is no part of it.

They are taken off the command line before Hydra sees it. `resume=RUN` and `trust=true` are typed as settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from sts_lightning.config.check import TWO_RUNS
from sts_lightning.core.conf_folders import Entry
from sts_lightning.core.errors import ConfigError


@dataclass(frozen=True)
class Options:
    """Options of one command.

    Attributes:
        trust: Whether the folder of a run may ask for anything; see `config.trust`.
        debug: Whether to show stack traces.
        resume: Folder of the run to resume; None: a new run.
        plan: With a sweep, check and list its jobs instead: a card, or empty for none; None: start them.
    """

    trust: bool = False
    debug: bool = False
    resume: str | None = None
    plan: str | None = None

    def of_jobs(self) -> tuple[str, ...]:
        """Return the options that a sweep passes to each of its jobs."""
        return (*(["trust=true"] if self.trust else []), *(["--debug"] if self.debug else []))


_current = Options()


def options() -> Options:
    """Return the options of this process."""
    return _current


@contextmanager
def using(chosen: Options) -> Iterator[None]:
    """Make these the options of this process."""
    global _current
    before, _current = _current, chosen
    try:
        yield
    finally:
        _current = before


def take_options(arguments: Sequence[str], entry: Entry) -> tuple[Options, list[str]]:
    """Return the options on a command line, and what else there is.

    Args:
        arguments: Command line without the name of the program.
        entry: The command; ``eval`` has ``trust`` and ``--debug``.

    Raises:
        ConfigError: An option lacks its value, or has another than it can have.
    """
    chosen, rest = Options(), list[str]()
    left = list(arguments)
    while left:
        argument = left.pop(0)
        name, equals, value = argument.partition("=")
        if name in ("--stage", "--share-stages", "--no-share-stages"):
            raise ConfigError(f"{name} is no option any more.", key=name, hint=TWO_RUNS)
        if name in ("--trust", "--trust-remote-code"):
            raise ConfigError(
                f"{name} is no option any more.",
                key="trust",
                hint="A run that is resumed may run code that its folder names with trust=true; a model that "
                "brings code along, with model.trust_remote_code=true.",
            )
        if name == "trust":
            if value.lower() not in ("true", "false"):
                raise ConfigError(f"{argument}: trust is true or false.", key="trust")
            chosen = replace(chosen, trust=value.lower() == "true")
        elif argument == "--debug":
            chosen = replace(chosen, debug=True)
        elif entry == "train" and name == "--plan":
            if not equals and left and re.fullmatch(r"[^-~=][^=]*", left[0]):  # no option and no override
                value = left.pop(0)
            chosen = replace(chosen, plan=value)
        elif entry == "train" and name == "resume":
            chosen = replace(chosen, resume=_folder(argument))
        else:
            rest.append(argument)
    return chosen, rest


def _folder(argument: str) -> str:
    try:
        override = OverridesParser.create().parse_override(argument)
    except HydraException:
        return argument.partition("=")[2]  # characters that Hydra would want quoted
    value = override.value()
    folder = value if isinstance(value, str) else argument.partition("=")[2]  # 2026_01 would be a number
    if not folder.strip():
        raise ConfigError("resume needs the folder of a run.", key="resume")
    return folder

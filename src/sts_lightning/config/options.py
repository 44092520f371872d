"""Options of the commands that Hydra reads: what to do with a configuration, which is no part of it.

They are taken off the command line before Hydra sees it. `resume=RUN` is one of them, typed like a setting.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from sts_lightning.config.trust import NOTHING, Trust
from sts_lightning.core.conf_folders import Entry
from sts_lightning.core.errors import ConfigError


@dataclass(frozen=True)
class Options:
    """Options of one command.

    Attributes:
        trust: Consent of the user to what the folder of a run may ask for.
        debug: Whether to show stack traces.
        resume: Folder of the run to resume; None: a new run.
        plan: With a sweep, check and list its jobs instead: a card, or empty for none; None: start them.
        share_stages: Whether stages before the last lie where other runs with the same ones find them; None:
            in a sweep.
        stage: The only stage to run, in the run folder itself, as jobs of sweeps do.
    """

    trust: Trust = NOTHING
    debug: bool = False
    resume: str | None = None
    plan: str | None = None
    share_stages: bool | None = None
    stage: str | None = None

    def of_jobs(self) -> tuple[str, ...]:
        """Return the options that a sweep passes to each of its jobs."""
        return (*self.trust.arguments(), *(("--debug",) if self.debug else ()))


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
        entry: The command; ``eval`` has ``--trust``, ``--trust-remote-code`` and ``--debug``.

    Raises:
        ConfigError: An option lacks its value, or ``resume`` has none that can be read.
    """
    chosen, rest, names, remote = Options(), list[str](), list[str](), False
    left = list(arguments)
    while left:
        argument = left.pop(0)
        name, equals, value = argument.partition("=")
        if name in ("--trust", "--stage") and (entry == "train" or name == "--trust"):
            value = value if equals or not left else left.pop(0)
            if not value or value.startswith("-"):
                raise ConfigError(f"{name} needs a name.", key=name)
            names += [value] if name == "--trust" else []
            chosen = replace(chosen, stage=value) if name == "--stage" else chosen
        elif argument == "--trust-remote-code":
            remote = True
        elif argument == "--debug":
            chosen = replace(chosen, debug=True)
        elif entry == "train" and name == "--plan":
            if not equals and left and re.fullmatch(r"[^-~=][^=]*", left[0]):  # no option and no override
                value = left.pop(0)
            chosen = replace(chosen, plan=value)
        elif entry == "train" and argument in ("--share-stages", "--no-share-stages"):
            chosen = replace(chosen, share_stages=argument == "--share-stages")
        elif entry == "train" and name == "resume":
            chosen = replace(chosen, resume=_folder(argument))
        else:
            rest.append(argument)
    return replace(chosen, trust=Trust.of(names, remote)), rest


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

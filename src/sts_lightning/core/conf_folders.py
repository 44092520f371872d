"""Where the configuration is, the user's own first, and where the scripts of train and eval are."""

from __future__ import annotations

import functools
import logging
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from sts_lightning.core.errors import ConfigError

log = logging.getLogger(__name__)

VARIABLE = "STS_CONF"
"""Environment variable that names the user's folder; empty: there is none."""

DEFAULT = "conf"
"""User's folder in the working directory, if it is there and has the file `MARKER`."""

MARKER = "sts_lightning"
"""File that makes ``conf`` in the working directory the user's: other projects have a folder of that name."""


def _packaged() -> Path:
    here = Path(__file__).resolve().parents[1]
    installed = here / "conf"  # put there when a wheel is built; a checkout has it beside src
    return installed if installed.is_dir() else here.parents[1] / "conf"


PACKAGED = _packaged()
"""Folder of this package."""


def own_folder() -> Path | None:
    """Return the user's folder; None without.

    It is that of ``STS_CONF``, else ``conf`` in the working directory if it has the file `MARKER`.

    Raises:
        ConfigError: ``STS_CONF`` is not a folder.
    """
    given = os.environ.get(VARIABLE)
    folder = Path(DEFAULT if given is None else given).absolute()
    if given == "" or (given is None and not folder.is_dir()):
        return None
    if not folder.is_dir():
        raise ConfigError(f"{VARIABLE}={given} is not a folder.", key=VARIABLE)
    if folder.samefile(PACKAGED):
        return None
    if given is None and not (folder / MARKER).is_file():
        _say_left_out(folder)
        return None
    return folder


@functools.cache  # once: the folder is asked for many times
def _say_left_out(folder: Path) -> None:
    """Say that a folder is not searched, if it has files that might be meant for this project."""
    own = ((folder / path.name, path.name) for path in PACKAGED.iterdir())
    found = sorted(name for path, name in own if path.is_file() or any(path.glob("*.yaml")))
    if found:
        log.warning(
            f"{DEFAULT}/{found[0]} is not read: without a file {MARKER} the folder may be another project's. "
            f"If it is meant for STS-Lightning: touch {DEFAULT}/{MARKER}"
        )


def folders() -> tuple[Path, ...]:
    """Return the folders in which a file of the configuration is looked for, in this order."""
    own = own_folder()
    return (PACKAGED,) if own is None else (own, PACKAGED)


def files_of(group: str) -> dict[str, Path]:
    """Return the files of a group by their names in order; a user's own replaces one of the package.

    Args:
        group: Folder below those of the configuration, such as ``loss`` or ``reproduce/scale``.
    """
    found = {path.stem: path for folder in reversed(folders()) for path in (folder / group).glob("*.yaml")}
    return dict(sorted(found.items()))


def take_folder(arguments: Sequence[str]) -> None:
    """Let Hydra's option ``--config-dir`` name the user's folder, for this process and those that it starts.

    Args:
        arguments: Command line of a Hydra command.
    """
    for index, argument in enumerate(arguments):
        name, given, value = argument.partition("=")
        if name in ("--config-dir", "-cd"):
            text = value if given else next(iter(arguments[index + 1 :]), "")
            if text:
                os.environ[VARIABLE] = str(Path(text).absolute())


Entry = Literal["train", "eval"]
"""``python train.py`` in a checkout, ``sts-lightning train`` everywhere."""

ENTRIES: tuple[Entry, ...] = get_args(Entry)

SCRIPTS = Path(__file__).resolve().parents[1] / "cli" / "entries"
"""Folder of the scripts, with nothing else in it: Python looks for modules beside a script first."""


def script_of(entry: Entry) -> Path:
    """Return the script of a command, for another process to run."""
    return SCRIPTS / f"{entry}.py"


def command_line(entry: Entry, *arguments: str) -> str:
    """Return a command as the user can type it.

    That is ``python train.py``, with the folder that was typed, if this process is such a script; without it
    in the checkout that the package is from; else ``sts-lightning train``.

    Args:
        entry: The command.
        *arguments: Its arguments, not quoted.
    """
    return " ".join([_front(entry), *map(shlex.quote, arguments)])


def typed_here(text: str) -> str:
    """Return a command of the documentation as the user can type it.

    Args:
        text: ``python train.py ...``, ``python eval.py ...``, or any other command, which stays.
    """
    for entry in ENTRIES:
        text = text.replace(f"python {entry}.py", _front(entry))
    return text


def _front(entry: Entry) -> str:
    program, here = Path(sys.argv[0]), Path(f"{entry}.py")
    packaged = PACKAGED.with_name(here.name)
    if program.name in {f"{name}.py" for name in ENTRIES}:
        if program.resolve().parent != SCRIPTS:
            return f"python {shlex.quote(str(program.with_name(here.name)))}"
    elif here.resolve() == packaged and packaged.is_file():
        return f"python {here}"
    return f"sts-lightning {entry}"

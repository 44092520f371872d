"""The two Hydra commands: their scripts, and how they are typed where the user is."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Literal, get_args

from sts_lightning.conf_folders import PACKAGED

Entry = Literal["train", "eval"]
"""``python train.py`` in a checkout, ``sts-lightning train`` everywhere."""

ENTRIES: tuple[Entry, ...] = get_args(Entry)

SCRIPTS = Path(__file__).resolve().parent / "cli" / "entries"
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

"""Folders of the configuration: the user's, the package's, the papers'; and the scripts of train and eval."""

from __future__ import annotations

import functools
import logging
import os
import shlex
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

_INSTALLED = Path(__file__).resolve().parents[1] / "conf"

PACKAGED = _INSTALLED if _INSTALLED.is_dir() else _INSTALLED.parents[2] / "conf"
"""Folder of this package: in the package where a wheel was built, beside ``src`` in a checkout."""

PAPERS = _INSTALLED.with_name("papers") / "conf"
"""Folder of what only a published table needs, searched last."""


def user_folder() -> Path | None:
    """Return the user's folder: that of ``STS_CONF``, else a marked ``conf`` in the working directory.

    Raises:
        ConfigError: ``STS_CONF`` is not a folder.
    """
    given = os.environ.get(VARIABLE)
    folder = Path(DEFAULT if given is None else given).absolute()
    if given == "" or (given is None and not folder.is_dir()):
        return None
    if not folder.is_dir():
        raise ConfigError(f"{VARIABLE}={given} is not a folder.", key=VARIABLE)
    if folder.samefile(PACKAGED):  # in a checkout of this project
        return None
    if given is None and not (folder / MARKER).is_file():
        _warn_unmarked(folder)
        return None
    return folder


@functools.cache  # one warning, though the folder is looked up many times
def _warn_unmarked(folder: Path) -> None:
    """Warn that a folder is not searched, if it has files or groups with the package's names."""
    same_names = (folder / path.name for path in PACKAGED.iterdir())
    ignored = sorted(path.name for path in same_names if path.is_file() or any(path.glob("*.yaml")))
    if ignored:
        log.warning(
            f"{DEFAULT}/{ignored[0]} is not read: without a file {MARKER} the folder may be another "
            f"project's. If it is meant for STS-Lightning: touch {DEFAULT}/{MARKER}"
        )


def folders() -> tuple[Path, ...]:
    """Return the folders of the configuration in the order of search."""
    user = user_folder()
    return (PACKAGED, PAPERS) if user is None else (user, PACKAGED, PAPERS)


def files_of(group: str) -> dict[str, Path]:
    """Return the files of a group by name, sorted; a user's file replaces the package's of that name.

    Args:
        group: Folder below those of the configuration, such as ``loss`` or ``hydra/launcher``.
    """
    # The user's folder last: a later entry of a dictionary replaces an earlier one.
    files = {path.stem: path for folder in reversed(folders()) for path in (folder / group).glob("*.yaml")}
    return dict(sorted(files.items()))


def set_user_folder(arguments: Sequence[str]) -> None:
    """Let Hydra's option ``--config-dir`` name the user's folder, also for processes that this one starts."""
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
    """Return a command with its arguments, which it quotes, as the user can type it here.

    ``python train.py`` works in the checkout that the package is from, ``sts-lightning train`` everywhere.
    """
    script = Path(f"{entry}.py")
    here = script.is_file() and script.resolve() == PACKAGED.with_name(script.name)
    program = f"python {script}" if here else f"sts-lightning {entry}"
    return " ".join([program, *map(shlex.quote, arguments)])

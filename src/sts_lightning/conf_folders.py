"""Where the configuration is: the user's own folder, searched first, and that of this package."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sts_lightning.errors import ConfigError

VARIABLE = "STS_CONF"
"""Environment variable that names the user's folder; empty: there is none."""

DEFAULT = "conf"
"""User's folder in the working directory, if it is there."""

PRIMARY = ("train.yaml", "eval.yaml")
"""Files that a configuration of this project starts from."""


def _packaged() -> Path:
    here = Path(__file__).resolve().parent
    installed = here / "conf"  # put there when a wheel is built; a checkout has it beside src
    return installed if installed.is_dir() else here.parents[1] / "conf"


PACKAGED = _packaged()
"""Folder of this package."""


def own_folder() -> Path | None:
    """Return the user's folder: that of ``STS_CONF``, else ``conf`` in the working directory; None without.

    Raises:
        ConfigError: ``STS_CONF`` is not a folder, or the folder is of another project.
    """
    given = os.environ.get(VARIABLE)
    folder = Path(DEFAULT if given is None else given).absolute()
    if given == "" or (given is None and not folder.is_dir()):
        return None
    if not folder.is_dir():
        raise ConfigError(f"{VARIABLE}={given} is not a folder.", key=VARIABLE)
    if folder.samefile(PACKAGED):
        return None
    for name in PRIMARY:
        path = folder / name
        if path.is_file() and f"{path.stem}_schema" not in path.read_text(encoding="utf-8", errors="replace"):
            raise ConfigError(
                f"{path} is not a configuration of STS-Lightning: {path.stem}_schema is not in its defaults.",
                key=VARIABLE,
                hint=f"Leave this folder out with {VARIABLE}= (empty), or name yours.",
            )
    return folder


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

    Raises:
        ConfigError: There is no such folder.
    """
    for index, argument in enumerate(arguments):
        name, given, value = argument.partition("=")
        if name in ("--config-dir", "-cd"):
            text = value if given else next(iter(arguments[index + 1 :]), "")
            if text and not Path(text).is_dir():
                raise ConfigError(f"--config-dir {text}: there is no such folder.", key="--config-dir")
            if text:
                os.environ[VARIABLE] = str(Path(text).absolute())

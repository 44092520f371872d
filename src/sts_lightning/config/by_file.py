"""Data set and loss by the columns of the user's file, where the command names neither."""

from __future__ import annotations

import glob
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from sts_lightning.config.check import written
from sts_lightning.config.compose import values_of
from sts_lightning.core.errors import ConfigError, DataError, at_setting
from sts_lightning.data.readers.rows import KINDS, Kind, Layout, recognise

log = logging.getLogger(__name__)

LOSSES: dict[Kind, str] = {"scored": "pearson", "rows": "infonce", "classes": "infonce"}
"""Loss for each kind of file."""

SCORED = ("sentence1", "sentence2", "score")
"""Columns that `data=pairs_file` reads unless others are typed."""

SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet", ".txt")
"""Ends of names of files; a name with another is one of the hub, unless such a file is there."""

HUB_SUFFIXES = (".json", ".arrow")
"""Ends of names of files that `data=pairs_hub` alone reads."""


def choose_by_file(overrides: Sequence[str]) -> list[str]:
    """Return the overrides that the file of ``path`` decides, and log them in one line.

    They are to be added to the command, which is then complete: with them the same command decides nothing,
    so that its jobs and further processes need not read the file.

    Args:
        overrides: Overrides of ``train.py``, or its whole command line.

    Returns:
        Overrides of ``data``, of ``loss`` unless that is typed, and of ``data.columns`` where scored pairs
        have other names than the usual ones. Nothing if ``data`` or an experiment, which says its data, is
        typed, or if ``path`` names no file.

    Raises:
        UserError: A file cannot be read or its columns do not tell what it is, the files are of more than one
            kind, or a file has sentences alone.
    """
    typed = _typed(overrides)
    names = list(dict.fromkeys(_texts(values_of(typed.get("path")))))
    if {"data", "experiment"} & typed.keys():
        return []
    if not names or not all(map(_is_file, names)):
        return []  # of the hub, or only composing tells the name
    with at_setting("path"):
        files = _files(names)
        columns = [list(_texts(each)) or None for each in values_of(typed.get("data.columns"))]
        layouts = [(file, recognise(Path(file), chosen)) for file in files for chosen in columns]
        first, layout = layouts[0]
        for other, differing in layouts[1:]:
            if differing.kind != layout.kind:
                raise DataError(
                    f"{first} has {KINDS[layout.kind][0]}, {other} {KINDS[differing.kind][0]}; "
                    "one run reads one kind.",
                    hint="Name those of one kind, or train on both with data=joint, a part for each.",
                )
    (words, data), loss = KINDS[layout.kind], LOSSES[layout.kind]
    added = [f"data={data}", *([] if "loss" in typed else [f"loss={loss}"])]
    if layout.kind == "scored" and columns == [None] and layout.columns != SCORED:
        added.append(f"data.columns=[{','.join(map(written, layout.columns))}]")
    others = "data= or" if "loss" in typed else "data=, loss= or"
    log.info(
        "%s%s: %s: %s; type another %s data.columns=[...] to choose yourself",
        first,
        "" if len(files) == 1 else f" and {len(files) - 1:,} more",
        _note(layout) if layout.kind == "scored" else words,  # the others say it when they read
        " ".join(added),
        others,
    )
    return added


def _typed(overrides: Sequence[str]) -> dict[str, Override]:
    """Return overrides by key; options of Hydra and mistakes, which it reports itself, are left out."""
    parser, typed = OverridesParser.create(), {}
    for text in overrides:
        with suppress(HydraException):
            override = parser.parse_override(text)
            if override.package is None:  # not of a part, as +data@data.parts.nli
                typed[override.key_or_group] = override
    return typed


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a value: of a list and of the keys of a mapping all."""
    if isinstance(value, list | dict):
        for item in value:
            yield from _texts(item)
    elif value is not None:
        yield str(value)


def _is_file(name: str) -> bool:
    """Return whether a text names a file or a pattern of files rather than a data set of the hub."""
    suffix = _suffix(name)
    if "${" in name:
        return False
    return suffix in SUFFIXES or glob.has_magic(name) or (Path(name).is_file() and suffix not in HUB_SUFFIXES)


def _suffix(name: str) -> str:
    return Path(name.lower().removesuffix(".gz")).suffix


def _files(names: Sequence[str]) -> list[str]:
    """Return the files of names and patterns.

    Raises:
        UserError: A pattern matches none, or a file has sentences alone.
    """
    if any(map(glob.has_magic, names)):
        from sts_lightning.data.files import find_files

        files = [file for name in names for file in find_files({name: 1.0})]
    else:
        files = list(names)
    for file in files:
        if _suffix(file) == ".txt":
            raise ConfigError(
                f"{file} has sentences, one a line, and nothing says which of them are similar.",
                hint="Views of one sentence teach, too: add experiment=simcse_unsup data=sentences_file.",
            )
    return files


def _note(layout: Layout) -> str:
    return layout.note or "{} and {} are the texts, {} the score".format(*layout.columns)

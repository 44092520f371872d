"""Tables of a data set on the Hugging Face hub, of a folder or of a file, as `datasets` reads them.

Only tables are read (Parquet, CSV, JSON, Arrow); `datasets` runs no code of a data set.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from datasets import DatasetBuilder, load_dataset_builder
from datasets.exceptions import DatasetGenerationError

from sts_lightning.core.errors import DataError, UserError
from sts_lightning.data.readers.tables import Input, Split

TABLES = ("parquet", "csv", "json", "arrow", "cache")
"""Builders of `datasets` whose data are tables; ``cache``: a table prepared before, read without network."""

NAME = re.compile(r"[\w.-]+/[\w.-]+")
COMMIT = re.compile(r"[0-9a-f]{7,40}")
SHARD = re.compile(r"(?P<start>.*-)\d{5}-of-(?P<count>\d{5})(?P<end>.*)")
"""Name of one of several files of a split, such as train-00001-of-00003.parquet."""

HINT = (
    "Check the name (owner/name), the network and HF_ENDPOINT; log in with `hf auth login` for a private one."
)


class HubTable:
    """The splits of a data set, all at one commit.

    Args:
        path: Name on the hub (owner/name), a folder or a file.
        columns: Names of the columns that are read as texts from CSV; of others the library guesses the type.
        config: Name of the configuration, where the data set has several.
        revision: Commit, branch or tag; the newest commit of the main branch if not given.

    Raises:
        DataError: The data set does not exist, is no table, is broken, or cannot be reached.
    """

    def __init__(
        self, path: str, columns: Sequence[str] = (), config: str | None = None, revision: str | None = None
    ) -> None:
        self.path, self.columns = path, columns
        self._local = Path(path).exists()
        if self._local and revision is not None:
            raise self._error(f"a folder has no revision {revision}; leave it out.", "data.revision")
        if not self._local and not NAME.fullmatch(path):
            raise self._error("neither a folder or file nor the name of a data set on the hub (owner/name).")
        # Tables of a folder are prepared anew: the library's cache takes a file whose time of modification
        # is the same, as after `cp -p`, for the same file.
        with TemporaryDirectory() as folder, _explained(path, None if self._local else HINT):
            builder = self._open(config, revision, folder if self._local else None)
            self._check(builder, revision)
            builder.download_and_prepare()
            self._splits: Any = builder.as_dataset(in_memory=self._local)
        self._name = path if self._local else f"{path}@{str(builder.hash)[:8]}"

    def split(self, name: str, setting: str) -> Input:
        """Return a split, with its commit in the name for records.

        Args:
            name: Its name.
            setting: Setting that names it, for errors.

        Raises:
            DataError: There is no such split, or a column occurs more than once.
        """
        if name not in self._splits:
            raise self._error(f"it has no split {name!r}.", setting, f"There are: {', '.join(self._splits)}.")
        split = Split(f"{self.path}, split {name}", self._splits[name])
        # The library names a second column of a name so, and takes surplus fields of rows for an index.
        doubtful = {*(f"{column}.1" for column in self.columns), "__index_level_0__"}
        if doubtful & {*split.rows.column_names}:
            raise DataError(
                "a column occurs more than once, or the rows have more fields than the header.", split.name
            )
        return Input(split, f"{self._name}, split {name}")

    def _error(self, message: str, key: str = "path", hint: str | None = None) -> DataError:
        return DataError(message, self.path, key=key, hint=hint)

    def _open(self, config: str | None, revision: str | None, cache: str | None) -> DatasetBuilder:
        where, files = self.path, None
        if self._local:
            path = Path(self.path).resolve()
            where, files = (str(path.parent), path.name) if path.is_file() else (str(path), None)
        load = partial(load_dataset_builder, where, config, data_files=files, cache_dir=cache)
        # As data=pairs_file reads them: the words None and NA, and numbers, are texts; CSV is quoted, and
        # only the Python engine rejects misplaced quotes; TSV is not quoted.
        texts = {"keep_default_na": False, "converters": dict.fromkeys(self.columns, _text)}
        quoted = {**texts, "engine": "python"}
        unquoted = {**texts, "quoting": csv.QUOTE_NONE}
        try:
            builder = load(revision=revision)
        except ValueError as error:  # without network, the cache is looked up by the options, too
            if "Couldn't find cache" not in str(error):
                raise
            try:
                return load(revision=revision, **quoted)
            except ValueError:
                return load(revision=revision, **unquoted)
        if _builder_name(builder) != "csv":
            return builder
        commit = None if self._local else str(builder.hash)
        return load(revision=commit, **(unquoted if builder.config.sep == "\t" else quoted))

    def _check(self, builder: DatasetBuilder, revision: str | None) -> None:
        name, commit = _builder_name(builder), str(builder.hash)
        if name not in TABLES:
            raise self._error(f"its files are of the kind {name}, which is no table of pairs.")
        known = revision is None or (COMMIT.fullmatch(revision) and commit.startswith(revision))
        if name == "cache" and not known:
            raise self._error(
                f"the hub cannot be reached; its cache holds the commit {commit}, perhaps not {revision}.",
                "data.revision",
                "Give that commit, or connect to the hub.",
            )
        for split, files in (builder.config.data_files or {}).items():
            names = {Path(str(file)).name for file in files}
            for match in filter(None, map(SHARD.fullmatch, names)):
                for number in range(int(match["count"])):
                    shard = f"{match['start']}{number:05d}-of-{match['count']}{match['end']}"
                    if shard not in names:
                        raise self._error(f"the file {shard} of the split {str(split)!r} is missing.")


def _text(value: str | None) -> str:
    """Return a field of a CSV file as it is; a row that is too short ends with None."""
    return value or ""


def _builder_name(builder: DatasetBuilder) -> str:
    return type(builder).__module__.rpartition(".")[2]


@contextmanager
def _explained(path: str, hint: str | None) -> Iterator[None]:
    """Turn an error of the library into one for the user."""
    try:
        yield
    except (UserError, MemoryError):
        raise
    except Exception as error:  # each format has other errors for damaged files
        cause: BaseException = error
        while isinstance(cause, DatasetGenerationError) and cause.__cause__ is not None:
            cause = cause.__cause__
        reason = f"{type(cause).__name__}: {' '.join(str(cause).split())[:400]}"
        keys = {"Config": "data.config", "BuilderConfig": "data.config", "Revision": "data.revision"}
        key = keys.get(str(cause).partition(" ")[0], "path")
        raise DataError(
            f"it cannot be read ({reason}).", path, key=key, hint=hint if key == "path" else None
        ) from error

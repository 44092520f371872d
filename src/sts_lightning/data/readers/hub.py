"""Reader of data sets of the Hugging Face hub, or of a folder with the same kinds of files.

Only tables are read (Parquet, CSV, JSON, Arrow). A loading script is never executed.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import datasets.config
import numpy as np
from datasets import DatasetBuilder, disable_progress_bars, get_dataset_config_names, load_dataset_builder

from sts_lightning.data.readers.hub_errors import explained, suggest
from sts_lightning.data.readers.hub_files import HubFiles
from sts_lightning.data.readers.text_files import looks_quoted, warn_of_quotes
from sts_lightning.data.training_files import summary
from sts_lightning.errors import DataError

TABLES = ("parquet", "csv", "json", "arrow", "cache")
"""Builders of `datasets` whose data are tables; ``cache``: a table prepared before, read without network."""

AS_TEXT: Mapping[str, Mapping[str, Any]] = {
    ",": {"keep_default_na": False, "engine": "python"},  # the only one that rejects misplaced quotes
    "\t": {"keep_default_na": False, "quoting": csv.QUOTE_NONE},
}
"""Options of CSV and TSV files by their separator, which read them as `data=pairs_file` does.

The words None, null and NA are words; CSV is quoted as in spreadsheets, whatever separator the card of the
data set states; TSV has no quoting.
"""

BATCH = 1000
"""Rows that are decoded together."""

NAME = re.compile(r"[\w.-]+/[\w.-]+")
COMMIT = re.compile(r"[0-9a-f]{7,40}")


class HubTable:
    """A data set at a fixed revision, whose splits are read from one and the same commit.

    Args:
        path: Name on the hub (owner/name), or a folder.
        config: Name of the configuration, where the data set has several.
        revision: Commit, branch or tag; the newest commit of the main branch if not given.
        streaming: Whether rows are read as they are needed, instead of downloading all files first.

    Raises:
        DataError: The data set does not exist, is no table, or cannot be reached.
    """

    def __init__(
        self, path: str, config: str | None = None, revision: str | None = None, streaming: bool = False
    ) -> None:
        self.path = path
        self.streaming = streaming
        self.local = Path(path).is_dir()
        self._check_path(revision)
        with explained(path, revision):
            self.builder = self._open(config, revision)
        self._check_builder(revision)
        self.files = HubFiles(path, self.builder)
        self.files.check_complete()
        self._prepared = False

    @property
    def name(self) -> str:
        """Name with the commit, for records."""
        return self.path if self.local else f"{self.path}@{str(self.builder.hash)[:8]}"

    @property
    def splits(self) -> list[str]:
        """Names of the splits."""
        files = self.builder.config.data_files
        return [str(name) for name in (files if files is not None else self.builder.info.splits or ())]

    def rows(
        self, split: str, columns: Sequence[str], limit: int | None = None, setting: str = "data.split"
    ) -> Iterator[tuple[int, list[Any]]]:
        """Yield the number of each row, from 0, and its values in the named columns.

        Args:
            split: Name of the split.
            columns: Names of the columns of both sentences and the score.
            limit: Number of rows to read, from the first; all if not given.
            setting: Setting that names the split, for errors.

        Raises:
            DataError: A split or column does not exist, or a file is broken or cannot be reached.
        """
        if split not in self.splits:
            hint = suggest(split, self.splits, f"There are: {', '.join(self.splits)}.")
            raise DataError(f"it has no split {split!r}.", self.path, key=setting, hint=hint)
        self.files.columns = columns
        self.files.begin(split)
        count = quoted = 0
        unquoted = _kind(self.builder) == "csv" and self.builder.config.sep == "\t"
        with explained(self.path, files=self.files):
            for file, part in self._parts(split, columns):
                self.files.enter(split, count, file)
                left = None if limit is None else limit - count
                for batch in self._batches(part, left):
                    if not all(column in batch for column in columns):  # streamed CSV and JSON files
                        row = {name: values[0] for name, values in batch.items()}
                        self._check_columns(split, columns, row)
                    for values in zip(*(batch[column] for column in columns), strict=True):
                        yield count, list(values)
                        count += 1
                        quoted += unquoted and any(map(looks_quoted, values))
                if count == limit:
                    break
            self.files.current = None
        warn_of_quotes(quoted, f"{self.path}, split {split}")

    def _batches(self, part: Any, limit: int | None) -> Iterator[dict[str, Any]]:
        if limit is not None:
            part = part.take(limit) if self.streaming else part.take(min(limit, len(part)))
        yield from part.iter(BATCH)

    def _parts(self, split: str, columns: Sequence[str]) -> Iterator[tuple[str | None, Any]]:
        """Yield each file of a split with its rows; None and all rows where files are not known."""
        names = self.files.names.get(split, [])
        if self.streaming:
            whole: Any = self.builder.as_streaming_dataset(split)
        else:
            self._prepare()
            if self.builder.info.splits[split].num_examples == 0:
                raise DataError("it has no rows.", f"{self.path}, {summary(names) or split}", key="data.path")
            whole = self.builder.as_dataset(split)
        # The columns of a CSV or JSON file that is streamed are known from its first row only.
        types = whole.features if whole.features is not None else next(iter(whole), {})
        self._check_columns(split, columns, types)
        part = whole if whole.features is None else whole.select_columns(list(columns))
        if self.streaming:
            if part.num_shards == len(names):
                yield from ((name, part.shard(len(names), index)) for index, name in enumerate(names))
                return
        else:
            lengths = self.builder.info.splits[split].original_shard_lengths
            if lengths is None and len(names) == 1:
                lengths = [len(part)]
            if lengths and len(lengths) <= len(names) and sum(lengths) == len(part):
                ends = np.cumsum(lengths)
                for name, start, end in zip(names, ends - lengths, ends, strict=False):
                    yield name, part.select(range(start, end))
                return
        yield None, part

    def _prepare(self) -> None:
        if self._prepared:
            return
        if not sys.stderr.isatty():
            disable_progress_bars()
        datasets.config.SAVE_ORIGINAL_SHARD_LENGTHS = True  # for the places of rows
        self.builder.download_and_prepare()
        self.files.current = None
        self._prepared = True

    def _check_columns(self, split: str, columns: Sequence[str], types: Mapping[str, Any]) -> None:
        place = f"{self.path}, split {split}"
        if not types:
            raise DataError("it has no rows.", place, key="data.path")
        if _kind(self.builder) == "csv":
            _check_header(columns, types, place)
        words = {name: str(getattr(kind, "dtype", type(kind).__name__)) for name, kind in types.items()}
        for column, setting in zip(columns, ("sentence1", "sentence2", "score"), strict=True):
            if column in types:
                continue
            wanted = ("int", "float", "double") if setting == "score" else ("str", "large_str")
            suited = [name for name, word in words.items() if name not in columns and word.startswith(wanted)]
            raise DataError(
                f"no column named {column!r}; there are {', '.join(map(repr, types))}.",
                place,
                key=f"data.{setting}",
                hint=suggest(column, suited, f"Name the column with data.{setting}=..."),
            )

    def _check_path(self, revision: str | None) -> None:
        if self.local:
            if revision is not None:
                raise DataError(
                    f"a folder has no revision {revision}.",
                    self.path,
                    key="data.revision",
                    hint="Leave it out.",
                )
        elif not NAME.fullmatch(self.path):
            raise DataError(
                "neither a folder nor the name of a data set on the hub (owner/name).",
                self.path,
                key="data.path",
                hint="A file of pairs is read with data=pairs_file." if Path(self.path).is_file() else None,
            )

    def _open(self, config: str | None, revision: str | None) -> DatasetBuilder:
        where = str(Path(self.path).resolve()) if self.local else self.path
        cache = self._cache()
        try:
            builder = load_dataset_builder(where, config, revision=revision, cache_dir=cache)
        except ValueError as error:
            if "Couldn't find cache" in str(error):
                return self._open_prepared(where, config, revision)
            if "Config name is missing" not in str(error) and "BuilderConfig" not in str(error):
                raise
            known = get_dataset_config_names(where, revision=revision)
            found = "several configurations" if config is None else f"no configuration {config!r}"
            hint = suggest(config or "", known, f"There are: {', '.join(known)}.")
            raise DataError(f"it has {found}.", self.path, key="data.config", hint=hint) from error
        if _kind(builder) == "csv":
            csv.field_size_limit(2**31 - 1)  # the default is too low for long texts
            commit = None if self.local else str(builder.hash)
            options = AS_TEXT.get(builder.config.sep, AS_TEXT[","])
            return load_dataset_builder(where, config, revision=commit, cache_dir=cache, **options)
        return builder

    def _cache(self) -> str | None:
        """Return a cache of its own for the files of a folder as they are now; None for the common one.

        The library takes a file for the same while its time of modification is the same, which ``cp -p``
        and ``rsync`` set. The time of the last change of its inode cannot be set.
        """
        if not self.local:
            return None
        state = sha256()
        for file in sorted(path for path in Path(self.path).rglob("*") if path.is_file()):
            about = file.stat()
            state.update(f"{file}\0{about.st_ino} {about.st_size} {about.st_ctime_ns}\0".encode())
        return str(Path(datasets.config.HF_DATASETS_CACHE) / f"folder-{state.hexdigest()[:16]}")

    def _open_prepared(self, where: str, config: str | None, revision: str | None) -> DatasetBuilder:
        """Return the builder of a CSV or TSV file that was prepared before, without network."""
        try:
            return load_dataset_builder(where, config, revision=revision, **AS_TEXT[","])
        except ValueError:
            return load_dataset_builder(where, config, revision=revision, **AS_TEXT["\t"])

    def _check_builder(self, revision: str | None) -> None:
        kind, commit = _kind(self.builder), str(self.builder.hash)
        if kind not in TABLES:
            raise DataError(
                f"its files are of the kind {kind}, which is no table of pairs.",
                self.path,
                key="data.path",
                hint="Give a data set of Parquet, CSV or JSON files.",
            )
        # Without network, the library takes what is in its cache, of whatever revision.
        known = revision is None or (COMMIT.fullmatch(revision) and commit.startswith(revision))
        if kind == "cache" and not known:
            raise DataError(
                f"the hub cannot be reached; its cache holds the commit {commit}, perhaps not {revision}.",
                self.path,
                key="data.revision",
                hint="Give that commit, or connect to the hub.",
            )


def _kind(builder: DatasetBuilder) -> str:
    return type(builder).__module__.rpartition(".")[2]


def _check_header(columns: Sequence[str], types: Mapping[str, Any], place: str) -> None:
    """Reject headers of CSV files that pandas would repair by a guess."""
    if "__index_level_0__" in types:
        raise DataError("the rows have more fields than the header.", place, key="data.path")
    for column, setting in zip(columns, ("sentence1", "sentence2", "score"), strict=True):
        if column in types and f"{column}.1" in types:  # the name that a second such column is given
            raise DataError(f"the column {column!r} occurs more than once.", place, key=f"data.{setting}")

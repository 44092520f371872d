"""Files of a data set as the builders of `datasets` read them, so that errors name a file and a row in it."""

from __future__ import annotations

import logging
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from datasets import DatasetBuilder

from sts_lightning.data.training_files import summary
from sts_lightning.errors import DataError

log = logging.getLogger(__name__)

PART = re.compile(r"(?P<start>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<end>.*)")
"""Name of one of several files of a split, such as train-00001-of-00003.parquet."""

SUFFIXES = (".parquet", ".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".arrow")
"""Ends of the names of files that may contain rows."""

NO_ROWS = ("dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json")
"""Files of the library that describe a data set."""


class HubFiles:
    """Names of the files of a data set, and which one is being read.

    Args:
        path: Name of the data set on the hub, or a folder.
        builder: Builder of its tables, which reports from now on what it reads.

    Attributes:
        current: Name of the file that is being read, or None.
        columns: Columns whose values must be of one kind in all files.
    """

    def __init__(self, path: str, builder: DatasetBuilder) -> None:
        self.path = path
        self.current: str | None = None
        self.columns: Sequence[str] = ()
        found = builder.config.data_files or {}
        self.names = {
            str(split): [self._short(str(file)) for file in files] for split, files in found.items()
        }
        self._kinds: dict[str, tuple[bool, str | None]] = {}
        self._starts: dict[str, list[tuple[int, str | None]]] = {}
        # The library logs the name of a broken file and raises an error without it.
        logging.getLogger("datasets.packaged_modules").setLevel(logging.CRITICAL)
        if hasattr(builder, "_generate_tables") and hasattr(builder, "_cast_table"):
            self._generate, self._cast = builder._generate_tables, builder._cast_table
            builder._generate_tables, builder._cast_table = self._read, self._check_kinds

    @property
    def first(self) -> str | None:
        """The file from whose header the library takes the columns."""
        return next((names[0] for names in self.names.values() if names), None)

    def begin(self, split: str) -> None:
        """Forget the rows of a split, which is read anew."""
        self._starts[split] = []

    def enter(self, split: str, row: int, name: str | None) -> None:
        """Note that the rows of a split from this one on are those of a file."""
        self.current = name
        self._starts[split].append((row, name))

    def place(self, split: str, row: int) -> str:
        """Return the file of a row of a split, and the number of the row in it, from 0."""
        starts = self._starts[split]
        start, name = starts[bisect_right([first for first, _ in starts], row) - 1]
        return f"row {row}" if name is None else f"{name}, row {row - start}"

    def check_complete(self) -> None:
        """Reject splits of which a file is missing, and name tables of a folder that are not read.

        Raises:
            DataError: The names of the files of a split announce more of them than there are.
        """
        for split, names in self.names.items():
            parts = [match for match in map(PART.fullmatch, names) if match]
            for match in parts:
                for number in range(int(match["count"])):
                    other = f"{match['start']}-{number:05d}-of-{match['count']}{match['end']}"
                    if other not in names:
                        raise DataError(
                            f"the file {other} of the split {split!r} is missing.",
                            self.path,
                            key="data.path",
                            hint="Download the data set again, or rename the files that are there.",
                        )
        read = {name for names in self.names.values() for name in names}
        folder = Path(self.path)
        tables = (file for file in folder.rglob("*") if file.suffix in SUFFIXES and file.name not in NO_ROWS)
        others = sorted({str(file.relative_to(folder)) for file in tables} - read)
        if read and others:
            log.warning("WARNING: %s: not read, besides %s: %s", self.path, self.first, summary(others))

    def _short(self, file: str) -> str:
        """Return the name of a file within its folder or repository."""
        if file.startswith("hf://"):
            return file.partition("@")[2].partition("/")[2] or file
        folder = Path(self.path).resolve()
        return str(Path(file).relative_to(folder)) if Path(file).is_relative_to(folder) else file

    def _read(self, **given: Any) -> Iterator[Any]:
        """Generate tables as the builder does, and note which file each is from."""
        looped = "files_iterables" if "files_iterables" in given else "files"
        files = [str(file) for file in given.get("base_files", given[looped])]

        def watched() -> Iterator[Any]:
            for file, item in zip(files, list(given[looped]), strict=True):
                self.current = self._name(file)
                yield item

        yield from self._generate(**{**given, looped: watched()})

    def _name(self, file: str) -> str:
        """Return the short name of a file, wherever a copy of it was downloaded to."""
        known = [name for names in self.names.values() for name in names]
        ends = [name for name in known if file == name or file.endswith(f"/{name}")]
        return max(ends, key=len, default=Path(file).name)

    def _check_kinds(self, table: pa.Table, *given: Any, **named: Any) -> pa.Table:
        """Cast a table as the builder does, but not true and false to 1 and 0, and scores as decimals.

        The library takes the type of a column from the first rows of CSV and JSON, and rejects 3.5 after
        whole numbers.
        """
        for field in table.schema:
            if field.name not in self.columns or pa.types.is_null(field.type):
                continue
            boolean = pa.types.is_boolean(field.type)
            before, where = self._kinds.setdefault(field.name, (boolean, self.current))
            if boolean != before:
                raise DataError(
                    f"the column {field.name!r} is {'' if boolean else 'not '}one of true and false, "
                    f"other than in {where}.",
                    self.path if self.current is None else f"{self.path}, {self.current}",
                    key="data.path",
                )
        for index, field in enumerate(table.schema):
            if field.name in self.columns[-1:] and pa.types.is_integer(field.type):
                decimals = table.column(index).cast(pa.float64())
                table = table.set_column(index, field.with_type(pa.float64()), decimals)
        return self._cast(table, *given, **named)

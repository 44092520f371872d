"""Conversion of downloaded files to the layout of a data root."""

from __future__ import annotations

import shutil
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from sts_lightning.core.errors import FetchError
from sts_lightning.data.counts import NLI_SOURCES
from sts_lightning.data.fetch.parts import SENTEVAL, Part

Downloads = Mapping[str, list[Path]]
"""Downloaded files by source, in the order of the table."""


def convert(part: Part, downloads: Downloads, folder: Path) -> int:
    """Write the files of a part below an empty folder; return the number of dropped rows, with empty texts.

    Raises:
        FetchError: A download does not contain what the part needs.
    """
    if part.name in ("sts", "transfer"):
        (archive,) = downloads[part.name]
        _unpack(archive, part, folder)
        return 0
    if part.name == "pairs":
        return _write_pairs(downloads, folder / part.files[0])
    paths, targets = sorted(downloads[part.name], key=lambda path: path.name), sorted(part.files)
    if len(paths) != len(targets):
        many = f"the source has {len(paths)} files for the {len(targets)} of {part.name}."
        raise FetchError(many, key=part.name)
    for path, target in zip(paths, targets, strict=True):
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / target)
    return 0


def _unpack(archive: Path, part: Part, folder: Path) -> None:
    """Extract the files of a part from SentEval's data in a tar file.

    Only regular files with the names of the part are read, and written under these names: nothing in the
    archive decides where.
    """
    names = {file.removeprefix(f"{SENTEVAL}/") for file in part.files}
    tops = {name.partition("/")[0] for name in names}
    unpacked = set()
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                steps = member.name.split("/")  # whatever folders the archive has above those of SentEval
                start = next((index for index, step in enumerate(steps) if step in tops), None)
                name = "/".join(steps[start:])
                content = tar.extractfile(member) if member.isfile() and name in names else None
                if start is None or content is None:
                    continue
                target = folder / SENTEVAL / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with content, target.open("wb") as stream:
                    shutil.copyfileobj(content, stream)
                unpacked.add(name)
    except tarfile.TarError as error:
        raise FetchError(f"{archive.name} is not a whole tar file ({error}).") from error
    if missing := sorted(names - unpacked):
        lacks = f"{archive.name} lacks {len(missing)} of {len(names)} files, such as {missing[0]}."
        raise FetchError(lacks, key=part.name)


def _write_pairs(downloads: Downloads, path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    empty, rows = 0, Counter[str]()
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write("premise\thypothesis\tlabel\tsource\n")
        for source, files in downloads.items():
            for premise, hypothesis, label in _labelled_pairs(source, files):
                rows[source] += 1
                # Tabs and line ends would break the format; the reader folds white space too.
                first, second = (" ".join((text or "").split()) for text in (premise, hypothesis))
                if first and second:
                    stream.write(f"{first}\t{second}\t{label}\t{source}\n")
                else:
                    empty += 1
    for source, published in NLI_SOURCES.items():
        if rows[source] != published:
            differs = f"{source} has {rows[source]:,} pairs with a class, published {published:,}."
            raise FetchError(differs, key=source)
    return empty


LABELS = ("entailment", "neutral", "contradiction")
"""Classes of SNLI and MultiNLI on the hub, in the order of their indices; -1: the annotators disagreed."""


def _labelled_pairs(source: str, files: list[Path]) -> Iterator[tuple[str | None, str | None, str]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in files:
        try:
            table = pq.ParquetFile(path)
            for batch in table.iter_batches(columns=["premise", "hypothesis", "label"], batch_size=10_000):
                for row in batch.to_pylist():
                    if row["label"] != -1:
                        yield row["premise"], row["hypothesis"], LABELS[row["label"]]
        except (pa.ArrowException, KeyError, IndexError, TypeError) as error:
            raise FetchError(
                f"{source}: {path.name} is not a parquet file with premise, hypothesis and label ({error}).",
                key=source,
            ) from error

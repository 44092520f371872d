"""Conversion of downloaded files to the layout of a data root."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from sts_lightning.data.fetch.parts import SENTEVAL, Part

Downloads = Mapping[str, list[Path]]
"""Downloaded files by source, in the order of the table."""


def convert(part: Part, downloads: Downloads, folder: Path) -> int:
    """Write the files of a part below an empty folder; return the number of dropped rows, with empty texts.

    The downloads have been compared with their hashes, and what is written here is counted next.
    """
    if part.name in ("sts", "transfer"):
        (archive,) = downloads[part.name]
        _unpack(archive, part, folder)
        return 0
    if part.name == "pairs":
        return _write_pairs(downloads, folder / part.files[0])
    paths = sorted(downloads[part.name], key=lambda path: path.name)
    for path, target in zip(paths, sorted(part.files), strict=True):
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
    with tarfile.open(archive) as tar:
        for member in tar:
            steps = member.name.split("/")  # whatever folders the archive has above those of SentEval
            start = next((index for index, step in enumerate(steps) if step in tops), len(steps))
            name = "/".join(steps[start:])
            if member.isfile() and name in names:
                tar.extract(member.replace(name=f"{SENTEVAL}/{name}"), folder, filter="data")


def _write_pairs(downloads: Downloads, path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    empty = 0
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write("premise\thypothesis\tlabel\tsource\n")
        for source, files in downloads.items():
            for premise, hypothesis, label in _labelled_pairs(files):
                # Tabs and line ends would break the format; the reader folds white space too.
                first, second = (" ".join((text or "").split()) for text in (premise, hypothesis))
                if first and second:
                    stream.write(f"{first}\t{second}\t{label}\t{source}\n")
                else:
                    empty += 1
    return empty


LABELS = ("entailment", "neutral", "contradiction")
"""Classes of SNLI and MultiNLI on the hub, in the order of their indices; -1: the annotators disagreed."""


def _labelled_pairs(files: list[Path]) -> Iterator[tuple[str | None, str | None, str]]:
    import pyarrow.parquet as pq

    for path in files:
        table = pq.ParquetFile(path)
        for batch in table.iter_batches(columns=["premise", "hypothesis", "label"], batch_size=10_000):
            for row in batch.to_pylist():
                if row["label"] != -1:
                    yield row["premise"], row["hypothesis"], LABELS[row["label"]]

"""Fetching of parts: download, convert, check, and only then install."""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from filelock import FileLock, Timeout

from sts_lightning.data.fetch.convert import Converted, convert
from sts_lightning.data.fetch.download import RemoteFile, download, resolve, sha256
from sts_lightning.data.fetch.manifest import FetchedFile, Record, read_manifest, write_record
from sts_lightning.data.fetch.parts import Part, place, try_count
from sts_lightning.data.fetch.sources import Source
from sts_lightning.errors import ConfigError, FetchError, RunningElsewhereError, StorageError
from sts_lightning.text import counted

log = logging.getLogger(__name__)

DOWNLOADS = ".downloads"
"""Folder below the data root for what has arrived so far; removed when everything is installed."""


def get(parts: Sequence[Part], sources: Mapping[str, Source], root: Path, overwrite: bool = False) -> None:
    """Fetch the parts of the published data that are not in a data root.

    Args:
        parts: Parts to fetch.
        sources: Table of sources.
        root: Data root, created if necessary.
        overwrite: Whether to replace files that are not the published ones.

    Raises:
        FetchError: A download failed, or is not what was published.
        ConfigError: Other files are in the place, and ``overwrite`` is not set.
        StorageError: The disk is full.
        RunningElsewhereError: Another process fetches into the same root.
    """
    missing = [part for part in parts if not _is_there(part, root, overwrite)]
    if not missing:
        return
    for name in ("httpx", "httpx2"):  # the hub's client logs every request through one of them
        logging.getLogger(name).setLevel(logging.WARNING)
    with _workplace(root) as folder:
        done: list[Path] = []
        for part in missing:
            with _disk_errors(root):
                done += _fetch(part, sources, root, folder)
        for path in done:  # not before: parts may share a download
            path.unlink(missing_ok=True)


def _is_there(part: Part, root: Path, overwrite: bool) -> bool:
    """Return whether nothing needs to be fetched.

    Raises:
        ConfigError: Files of the user's own are in the place.
    """
    present = [name for name in part.files if place(root, name).is_file()]
    record = read_manifest(root).get(part.name)
    known = {} if record is None else record.files
    own = [name for name in present if sha256(place(root, name)) != known.get(name)]
    whole = len(present) == len(part.files)
    if whole and not own:
        log.info("%s: complete, as fetched on %s.", part.name, record.fetched[:10] if record else "")
        return True
    if not own or overwrite:
        return False
    counts = try_count(part, root) if whole else f"{len(present)} of {len(part.files)} files are there"
    if isinstance(counts, dict):
        differences = part.differences(counts)
        if not differences:
            log.info("%s: complete; this command did not fetch it.", part.name)
            return True
        counts = "; ".join(differences)
    raise ConfigError(
        f"{place(root, own[0])} is in the place of the published file ({counts}).",
        key=part.name,
        hint="--overwrite replaces it; --root chooses another folder.",
    )


def _fetch(part: Part, sources: Mapping[str, Source], root: Path, folder: Path) -> list[Path]:
    """Download, convert, check and install a part; return its downloads."""
    remote = [
        resolve(source, name)
        for source in (_pinned(sources[name], part, root) for name in part.sources)
        for name in source.files
    ]
    arrived = [(file, download(file, folder)) for file in remote]
    stage = folder / f"{part.name}.stage"
    shutil.rmtree(stage, ignore_errors=True)  # of a process that was killed
    stage.mkdir()
    try:
        by_source = {
            source: [path for file, path in arrived if file.source.name == source] for source in part.sources
        }
        converted = convert(part, by_source, stage)
        record = Record(
            fetched=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            downloads=[_fetched(file, path) for file, path in arrived],
            files={name: sha256(stage / name) for name in part.files},
            counts=_checked_counts(part, stage, converted),
            notes=converted.notes,
        )
        _install(part, stage, root, record)
    finally:
        shutil.rmtree(stage)
    return [path for _, path in arrived]


def _install(part: Part, stage: Path, root: Path, record: Record) -> None:
    # The record first: if the process ends between two files, the next one recognises those installed.
    write_record(root, part.name, record)
    for name in part.files:
        target = place(root, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        (stage / name).replace(target)
    total = f"{sum(record.counts.values()):,}"
    log.info("%s: %s rows, %s below %s.", part.name, total, counted(len(part.files), "file"), root)


def _pinned(source: Source, part: Part, root: Path) -> Source:
    """Return the source at the commit of an earlier fetch, unless the user changed it."""
    record = read_manifest(root).get(part.name)
    if record is None or source.changed & {"repo", "url", "revision"}:
        return source
    earlier = {file.revision for file in record.downloads if file.place == source.place}
    return replace(source, revision=earlier.pop()) if len(earlier) == 1 else source


def _checked_counts(part: Part, stage: Path, converted: Converted) -> dict[str, int]:
    counts = try_count(part, stage)
    problems = [counts] if isinstance(counts, str) else part.differences(counts, converted.dropped)
    if isinstance(counts, str) or problems:
        raise FetchError(
            f"what arrived is not the published data, and nothing was installed: {'; '.join(problems[:3])}.",
            key=part.name,
            hint=f"Name another source with --source {part.sources[0]}.repo=....",
        )
    return counts


def _fetched(file: RemoteFile, path: Path) -> FetchedFile:
    return FetchedFile(
        file.source.name, file.source.place, file.revision, file.name, sha256(path), path.stat().st_size
    )


@contextlib.contextmanager
def _workplace(root: Path) -> Iterator[Path]:
    """Create and lock the folder of downloads.

    Raises:
        RunningElsewhereError: Another process uses it.
    """
    folder = root / DOWNLOADS
    found = root.is_dir()
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(root / f"{DOWNLOADS}.lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise RunningElsewhereError(f"another process is fetching data into {root}; wait for it.") from None
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
            raise
        log.warning("%s: no locks on this file system; fetch into it with one process at a time.", root)
    try:
        yield folder
    finally:
        (root / f"{DOWNLOADS}.lock").unlink(missing_ok=True)
        lock.release()
        with contextlib.suppress(OSError):  # what has arrived is kept for the next attempt
            folder.rmdir()
            if not found:
                root.rmdir()


@contextlib.contextmanager
def _disk_errors(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise StorageError(
            f"{root}: {error.strerror}.",
            hint="Make room, or choose another disk with --root; the same command continues.",
        ) from error

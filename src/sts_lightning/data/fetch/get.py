"""Fetching of parts: download, convert, check, and only then install."""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sts_lightning.data.fetch.convert import convert
from sts_lightning.data.fetch.download import Source, download, sha256
from sts_lightning.data.fetch.manifest import Record, read_manifest, write_record
from sts_lightning.data.fetch.parts import Part, place, try_count
from sts_lightning.errors import ConfigError, FetchError
from sts_lightning.files import locked_file
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
        RunningElsewhereError: Another process fetches into the same root.
    """
    missing = [part for part in parts if not _is_there(part, root, overwrite)]
    if not missing:
        return
    for name in ("httpx", "httpx2"):  # the hub's client logs every request through one of them
        logging.getLogger(name).setLevel(logging.WARNING)
    with _workplace(root) as folder:
        for part in missing:
            _fetch(part, sources, root, folder)
        shutil.rmtree(folder)  # not before: parts may share a download


def _is_there(part: Part, root: Path, overwrite: bool) -> bool:
    """Return whether nothing needs to be fetched.

    Raises:
        ConfigError: Files of the user's own are in the place.
    """
    present = [name for name in part.files if place(root, name).is_file()]
    record = read_manifest(root).get(part.name)
    known = {} if record is None else record["files"]
    own = [name for name in present if sha256(place(root, name)) != known.get(name)]
    whole = len(present) == len(part.files)
    if whole and not own:
        log.info("%s: complete, as fetched on %s.", part.name, record["fetched"][:10] if record else "")
        return True
    if not own or overwrite:
        return False
    found = try_count(part, root) if whole else f"{len(present)} of {len(part.files)} files are there"
    difference = found if isinstance(found, str) else part.difference(found)
    if not difference:
        log.info("%s: complete; this command did not fetch it.", part.name)
        return True
    raise ConfigError(
        f"{place(root, own[0])} is in the place of the published file ({difference}).",
        key=part.name,
        hint="--overwrite replaces it; --root chooses another folder.",
    )


def _fetch(part: Part, sources: Mapping[str, Source], root: Path, folder: Path) -> None:
    """Download, convert, check and install a part."""
    arrived = {
        source: {name: download(sources[source], name, folder) for name in sources[source].files}
        for source in part.sources
    }
    stage = folder / f"{part.name}.stage"
    shutil.rmtree(stage, ignore_errors=True)  # of a process that was killed
    stage.mkdir()
    try:
        dropped = convert(part, {source: list(files.values()) for source, files in arrived.items()}, stage)
        rows = try_count(part, stage)
        problem = rows if isinstance(rows, str) else part.difference(rows, dropped)
        if isinstance(rows, str) or problem:
            raise FetchError(
                f"what arrived is not the published data, and nothing was installed: {problem}.",
                key=part.name,
            )
        record = Record(
            fetched=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            downloads=[
                {
                    "source": source,
                    "place": sources[source].place,
                    "revision": sources[source].revision,
                    "file": name,
                    "sha256": sha256(path),
                    "size": path.stat().st_size,
                }
                for source, files in arrived.items()
                for name, path in files.items()
            ],
            files={name: sha256(stage / name) for name in part.files},
            rows=rows,
            dropped=dropped,
        )
        _install(part, stage, root, record)
    finally:
        shutil.rmtree(stage)


def _install(part: Part, stage: Path, root: Path, record: Record) -> None:
    # The record first: if the process ends between two files, the next one recognises those installed.
    write_record(root, part.name, record)
    for name in part.files:
        target = place(root, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        (stage / name).replace(target)
    rows, files = f"{record['rows']:,}", counted(len(part.files), "file")
    log.info("%s: %s rows, %s below %s.", part.name, rows, files, root)


@contextlib.contextmanager
def _workplace(root: Path) -> Iterator[Path]:
    """Create and lock the folder of downloads.

    Raises:
        RunningElsewhereError: Another process uses it.
    """
    folder, lock = root / DOWNLOADS, root / f"{DOWNLOADS}.lock"
    found = root.is_dir()
    folder.mkdir(parents=True, exist_ok=True)
    with locked_file(lock, lambda: f"another process is fetching data into {root}; wait for it."):
        try:
            yield folder
        finally:
            lock.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # what has arrived is kept for the next attempt
                if folder.is_dir():
                    folder.rmdir()
                if not found:
                    root.rmdir()

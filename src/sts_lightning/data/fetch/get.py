"""Fetching of parts: download, convert, check, and only then install."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

import yaml
from huggingface_hub import errors, get_hf_file_metadata, hf_hub_download, hf_hub_url

from sts_lightning.core.errors import ConfigError, FetchError
from sts_lightning.core.files import locked_file
from sts_lightning.core.text import counted
from sts_lightning.data.fetch.convert import convert
from sts_lightning.data.fetch.manifest import Record, read_manifest, write_record
from sts_lightning.data.fetch.parts import Part, place, try_count

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


@dataclass(frozen=True)
class Source:
    """Files at one revision of a repository.

    Attributes:
        name: Name in the table.
        files: Hash of each file: SHA-256 (64 digits), git's name of the content (40 digits), or None.
        revision: Commit.
        repo: Data set on the Hugging Face hub, or None.
        url: Address with ``{revision}`` and ``{file}`` on another server, or None.
    """

    name: str
    files: Mapping[str, str | None]
    revision: str
    repo: str | None = None
    url: str | None = None

    @property
    def place(self) -> str:
        """Repository or address, for messages and records."""
        return self.repo or self.url or ""


def load_sources() -> dict[str, Source]:
    """Load the table of sources, `sources.yaml`."""
    table = yaml.safe_load(Path(__file__).with_name("sources.yaml").read_text(encoding="utf-8"))
    return {name: Source(name, **entry) for name, entry in table.items()}


def download(source: Source, name: str, folder: Path) -> Path:
    """Download a file and check its hash.

    Args:
        source: Source of the file.
        name: Its path there.
        folder: Folder for the download, where the next attempt finds files that have arrived whole.

    Returns:
        Path of the whole, checked file below the folder.

    Raises:
        FetchError: The connection broke, the disk is full, or the content is not what was published.
    """
    what = f"{source.place}: {name} at {source.revision[:8]}"
    log.info("%s", what)
    try:
        if source.repo is None:
            path, digests = folder / Path(name).name, {source.files[name]}
            if not (path.is_file() and _matches(path, source.files[name])):  # of an earlier attempt
                address = source.place.format(revision=source.revision, file=name)
                with urlopen(address, timeout=60) as answer, path.open("wb") as stream:
                    shutil.copyfileobj(answer, stream)
        else:
            repo, revision = source.repo, source.revision
            stated = get_hf_file_metadata(hf_hub_url(repo, name, repo_type="dataset", revision=revision)).etag
            digests = {source.files[name], stated}
            path = Path(hf_hub_download(repo, name, repo_type="dataset", revision=revision, local_dir=folder))
    except (errors.HTTPError, HTTPException, OSError) as error:
        told = " ".join(f"{type(error).__name__}: {error}".split())
        raise FetchError(
            f"{what} cannot be fetched ({told[:400]}).",
            hint="Check the network, HF_ENDPOINT and HF_HUB_OFFLINE; the same command tries again.",
        ) from error
    for digest in digests:
        if not _matches(path, digest):
            found = sha256(path)
            path.unlink()
            raise FetchError(
                f"{what} arrived with the hash {found}, not {digest}, and was deleted.",
                hint="Run the command again; if it happens twice, the file or a proxy is at fault.",
            )
    return path


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _matches(path: Path, digest: str | None) -> bool:
    """Return whether a file has a hash, SHA-256 or git's name of the content; true for none and others."""
    if digest is None or len(digest) not in (40, 64):
        return True
    if len(digest) == 64:
        return sha256(path) == digest
    start = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: start).hexdigest() == digest

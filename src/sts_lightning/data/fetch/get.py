"""Fetching of the published data: the table of sources, download, conversion, check and installation."""

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

from sts_lightning.core.errors import ConfigError, DataError, FetchError, counted
from sts_lightning.core.files import locked_file
from sts_lightning.data.fetch.convert import convert
from sts_lightning.data.fetch.manifest import ManifestEntry, read_manifest, stock_of, write_entry
from sts_lightning.data.fetch.parts import Part, data_path

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Source:
    """Files at one revision of a repository.

    Attributes:
        name: Name in the table.
        files: Hash of each file: SHA-256 (64 digits), git's name of the content (40 digits), or None.
        revision: Commit.
        repo: Data set on the Hugging Face hub, or None.
        url: URL on another server with ``{revision}`` and ``{file}``, or None.
    """

    name: str
    files: Mapping[str, str | None]
    revision: str
    repo: str | None = None
    url: str | None = None

    @property
    def address(self) -> str:
        """Repository or URL, for messages and the manifest."""
        return self.repo or self.url or ""


def load_sources() -> dict[str, Source]:
    """Load the table of sources, `sources.yaml`."""
    table = yaml.safe_load(Path(__file__).with_name("sources.yaml").read_text(encoding="utf-8"))
    return {name: Source(name, **entry) for name, entry in table.items()}


def get(parts: Sequence[Part], sources: Mapping[str, Source], root: Path, overwrite: bool = False) -> None:
    """Fetch the parts of the published data that are not in a data root.

    Args:
        parts: Parts to fetch.
        sources: Table of sources.
        root: Data root, created if necessary.
        overwrite: Whether to replace files that are not the published ones.

    Raises:
        FetchError: A download failed, or is not what was published.
        ConfigError: Other files have the same names, and ``overwrite`` is not set.
        RunningElsewhereError: Another process fetches into the same root.
    """
    missing = [part for part in parts if not _is_complete(part, root, overwrite)]
    if not missing:
        return
    for name in ("httpx", "httpx2"):  # the hub's client logs every request through one of them
        logging.getLogger(name).setLevel(logging.WARNING)
    with _downloads_folder(root) as folder:
        for part in missing:
            _fetch(part, sources, root, folder)
        shutil.rmtree(folder)  # not before: parts may share a download


def _is_complete(part: Part, root: Path, overwrite: bool) -> bool:
    """Return whether nothing needs to be fetched; reject files that this command did not write."""
    present = [name for name in part.files if data_path(root, name).is_file()]
    entry = read_manifest(root).get(part.name)
    known = {} if entry is None else entry["files"]
    foreign = [name for name in present if sha256(data_path(root, name)) != known.get(name)]
    if entry is not None and not foreign and len(present) == len(part.files):
        log.info("%s: complete, as fetched on %s.", part.name, entry["fetched"][:10])
        return True
    if not foreign or overwrite:
        return False
    stock = stock_of(part, root, None)
    if stock.state == "complete":
        log.info("%s: complete; this command did not fetch it.", part.name)
        return True
    raise ConfigError(
        f"{data_path(root, foreign[0])} is in the place of the published file ({stock.note}).",
        key=part.name,
        hint="--overwrite replaces it; --root chooses another folder.",
    )


DOWNLOADS = ".downloads"
"""Folder for downloads below the data root, so that installing a file only renames it."""


@contextlib.contextmanager
def _downloads_folder(root: Path) -> Iterator[Path]:
    """Create and lock the folder of downloads."""
    folder, lock = root / DOWNLOADS, root / f"{DOWNLOADS}.lock"
    folder.mkdir(parents=True, exist_ok=True)
    with locked_file(lock, lambda: f"another process is fetching data into {root}; wait for it."):
        try:
            yield folder
        finally:
            lock.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # not empty: files that have arrived wait for the next attempt
                if folder.is_dir():
                    folder.rmdir()


def _fetch(part: Part, sources: Mapping[str, Source], root: Path, folder: Path) -> None:
    """Download, convert, check and install a part."""
    arrived = {
        source: {name: download(sources[source], name, folder) for name in sources[source].files}
        for source in part.sources
    }
    staging = folder / f"{part.name}.stage"
    shutil.rmtree(staging, ignore_errors=True)  # of a process that was killed
    staging.mkdir()
    try:
        dropped = convert(part, {source: list(files.values()) for source, files in arrived.items()}, staging)
        try:
            rows = part.count(staging)
            problem = part.difference(rows, dropped)
        except DataError as error:
            problem = str(error)
        if problem:
            wrong = f"what arrived is not the published data, and nothing was installed: {problem}."
            raise FetchError(wrong, key=part.name)
        entry = ManifestEntry(
            fetched=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            downloads=[
                {
                    "source": source,
                    "place": sources[source].address,
                    "revision": sources[source].revision,
                    "file": name,
                    "sha256": sha256(path),
                    "size": path.stat().st_size,
                }
                for source, files in arrived.items()
                for name, path in files.items()
            ],
            files={name: sha256(staging / name) for name in part.files},
            rows=rows,
            dropped=dropped,
        )
        # The manifest first: if the process ends between two files, the next one recognises those installed.
        write_entry(root, part.name, entry)
        for name in part.files:
            target = data_path(root, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            (staging / name).replace(target)
        log.info("%s: %s rows, %s below %s.", part.name, f"{rows:,}", counted(len(part.files), "file"), root)
    finally:
        shutil.rmtree(staging)


def download(source: Source, name: str, folder: Path) -> Path:
    """Download a file of a source into a folder, check its hash, and return its path.

    A later attempt finds complete files in the folder, and does not download them again.

    Raises:
        FetchError: The connection broke, the disk is full, or the content is not what was published.
    """
    what = f"{source.address}: {name} at {source.revision[:8]}"
    log.info("%s", what)
    try:
        if source.repo is None:
            path, digests = folder / Path(name).name, {source.files[name]}
            if not (path.is_file() and _matches(path, source.files[name])):  # of an earlier attempt
                url = source.address.format(revision=source.revision, file=name)
                with urlopen(url, timeout=60) as answer, path.open("wb") as stream:
                    shutil.copyfileobj(answer, stream)
        else:
            repo, revision = source.repo, source.revision
            stated = get_hf_file_metadata(hf_hub_url(repo, name, repo_type="dataset", revision=revision)).etag
            digests = {source.files[name], stated}  # for most files the table leaves the hash to the hub
            path = Path(hf_hub_download(repo, name, repo_type="dataset", revision=revision, local_dir=folder))
    except (errors.HTTPError, HTTPException, OSError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise FetchError(
            f"{what} cannot be fetched ({reason[:400]}).",
            hint="Check the network, HF_ENDPOINT and HF_HUB_OFFLINE; the same command tries again.",
        ) from error
    for digest in digests:
        if not _matches(path, digest):
            actual = sha256(path)
            path.unlink()
            raise FetchError(
                f"{what} arrived with the hash {actual}, not {digest}, and was deleted.",
                hint="Run the command again; if it happens twice, the file or a proxy is at fault.",
            )
    return path


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _matches(path: Path, digest: str | None) -> bool:
    """Return whether a file has a hash: SHA-256, or the id of a blob in git.

    It is true for no hash, and for other strings, since a server may state any as its etag.
    """
    if digest is None or len(digest) not in (40, 64):
        return True
    if len(digest) == 64:
        return sha256(path) == digest
    start = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: start).hexdigest() == digest

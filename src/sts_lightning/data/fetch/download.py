"""Download of a file from the table of sources, checked against its hash."""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

import yaml
from huggingface_hub import errors, get_hf_file_metadata, hf_hub_download, hf_hub_url

from sts_lightning.errors import FetchError

log = logging.getLogger(__name__)


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

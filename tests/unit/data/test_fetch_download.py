"""Downloads from a local hub and a plain server: whole, broken off, resumed, and with wrong content."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from huggingface_hub import constants

from sts_lightning.core.errors import FetchError
from sts_lightning.data.fetch import DOWNLOADS, Source, fetch_file, load_sources
from tests.support.hub_server import Hub, git_blob_id

CONTENT = os.urandom(100_000)


def source(revision: str = "main", digest: str | None = None, name: str = "folder/big.bin") -> Source:
    return Source({name: digest}, revision, "me/data")


def fetch(where: Source, folder: Path) -> Path:
    (name,) = where.files
    return fetch_file(where, name, folder)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client writes to disk in chunks, by default of 10 MB; what is left of a chunk is lost."""
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 10_000)


def test_the_table_has_the_sources_of_every_download() -> None:
    table = load_sources()
    assert set(table) == {source for each in DOWNLOADS.values() for source in each.sources}
    for entry in table.values():
        assert len(entry.revision) == 40
        assert all(digest is None or len(digest) in (40, 64) for digest in entry.files.values())
        assert entry.repo or "{revision}" in (entry.url or "")


def test_a_file_at_a_revision(hub: Hub, tmp_path: Path) -> None:
    old = hub.add("me/data", {"folder/big.bin": b"old" * 100})
    new = hub.add("me/data", {"folder/big.bin": CONTENT})
    digest = hashlib.sha256(CONTENT).hexdigest()
    assert fetch(source(new, digest), tmp_path / "new").read_bytes() == CONTENT
    assert fetch(source(old), tmp_path / "old").read_bytes() == b"old" * 100


def test_a_broken_connection_is_resumed(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.add("me/data", {"folder/big.bin": CONTENT})
    hub.cut["big.bin"] = 40_000
    assert fetch(source(), tmp_path).read_bytes() == CONTENT
    assert [request.range for request in hub.downloads()] == [None, "bytes=40000-"]
    assert hub.downloads()[0].authorization is None  # the storage does not see the token
    assert fetch(source(), tmp_path).read_bytes() == CONTENT
    assert len(hub.downloads()) == 2


def test_a_server_that_breaks_off(hub: Hub, tmp_path: Path) -> None:
    hub.add("me/data", {"folder/big.bin": CONTENT})
    hub.cut["big.bin"] = 40_000
    hub.errors_after_cut["/lfs/"] = (503, "")
    with pytest.raises(FetchError, match="503") as caught:
        fetch(source(), tmp_path)
    assert "tries again" in (caught.value.hint or "")
    hub.errors.clear()
    assert fetch(source(), tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize(
    "published", [hashlib.sha256(b"what was published").hexdigest(), git_blob_id(b"what was published")]
)
def test_wrong_content_is_deleted(published: str, hub: Hub, tmp_path: Path) -> None:
    hub.add("me/data", {"big.bin": CONTENT})
    with pytest.raises(FetchError, match=published):
        fetch(source(digest=published, name="big.bin"), tmp_path)
    assert not (tmp_path / "big.bin").exists()


@pytest.mark.parametrize(
    ("where", "told"),
    [
        (Source({"none.txt": None}, "main", "me/data"), "404"),
        (Source({"folder/big.bin": None}, "0" * 40, "me/data"), "404"),
        (Source({"folder/big.bin": None}, "main", "me/none"), "401"),
    ],
)
def test_what_is_not_there(where: Source, told: str, hub: Hub, tmp_path: Path) -> None:
    hub.add("me/data", {"folder/big.bin": CONTENT})
    with pytest.raises(FetchError, match=told):
        fetch(where, tmp_path)


def test_no_network(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    template = "http://127.0.0.1:9/{repo_id}/resolve/{revision}/{filename}"  # nothing listens there
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # the client tries six times in 23 seconds
    with pytest.raises(FetchError, match="cannot be fetched") as caught:
        fetch(source(), tmp_path)
    assert "HF_ENDPOINT" in (caught.value.hint or "")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(FetchError, match="HF_HUB_OFFLINE"):
        fetch(source(), tmp_path)


def test_another_server(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.add("me/data", {"a.txt": b"some text\n"})
    url = hub.url + "/datasets/me/data/resolve/{revision}/{file}"
    place = Source({"a.txt": git_blob_id(b"some text\n")}, "main", None, url)
    assert fetch(place, tmp_path).read_bytes() == b"some text\n"
    assert [request.authorization for request in hub.requests] == [None]
    (tmp_path / "a.txt").write_bytes(b"some")  # killed before the end
    assert fetch(place, tmp_path).read_bytes() == b"some text\n"
    wrong = Source({"a.txt": git_blob_id(b"other")}, "main", None, url)
    with pytest.raises(FetchError, match="and was deleted"):
        fetch(wrong, tmp_path)
    hub.errors["a.txt"] = (503, "")
    with pytest.raises(FetchError, match="503"):
        fetch(place, tmp_path)

"""Downloads from a local hub: whole, broken off and resumed, and everything that can go wrong."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from huggingface_hub import constants

from sts_lightning.data.fetch.download import download, resolve, sha256
from sts_lightning.data.fetch.sources import Source
from sts_lightning.errors import FetchError, StorageError
from tests.hub_server import Hub, git_blob_id

CONTENT = os.urandom(100_000)


def source(revision: str = "main", digest: str | None = None, name: str = "folder/big.bin") -> Source:
    return Source("wiki", "me/data", None, revision, {name: digest})


def fetch(where: Source, folder: Path) -> Path:
    (name,) = where.files
    return download(resolve(where, name), folder)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client writes to disk in chunks, by default of 10 MB; what is left of a chunk is lost."""
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 10_000)


def test_whole_file(hub: Hub, tmp_path: Path) -> None:
    old = hub.add("me/data", {"folder/big.bin": b"old" * 100})
    new = hub.add("me/data", {"folder/big.bin": CONTENT})
    file = resolve(source(), "folder/big.bin")
    assert (file.revision, file.digests, file.size) == (
        new,
        (hashlib.sha256(CONTENT).hexdigest(),),
        len(CONTENT),
    )
    assert download(file, tmp_path).read_bytes() == CONTENT
    assert fetch(source(revision=old), tmp_path).read_bytes() == b"old" * 100
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".bin", ".bin"]


def test_small_files_are_checked_by_gits_name(hub: Hub, tmp_path: Path) -> None:
    hub.add("me/data", {"small.txt": b"a b\n"})
    file = resolve(source(name="small.txt"), "small.txt")
    assert file.digests == (git_blob_id(b"a b\n"),)
    assert download(file, tmp_path).read_bytes() == b"a b\n"
    hub.false_hashes["small.txt"] = git_blob_id(b"other")
    with pytest.raises(FetchError) as caught:
        fetch(source(name="small.txt"), tmp_path)
    assert caught.value.key == "wiki.digest"


def test_a_broken_connection_is_resumed_at_once(hub: Hub, tmp_path: Path) -> None:
    hub.add("me/data", {"folder/big.bin": CONTENT})
    hub.cut["big.bin"] = 40_000
    assert fetch(source(), tmp_path).read_bytes() == CONTENT
    assert [request.range for request in hub.downloads()] == [None, "bytes=40000-"]


def test_the_next_attempt_resumes(hub: Hub, tmp_path: Path) -> None:
    hub.add("me/data", {"folder/big.bin": CONTENT})
    hub.cut["big.bin"] = 40_000
    hub.errors_after_cut["/lfs/"] = (503, "")
    with pytest.raises(FetchError, match="503") as caught:
        fetch(source(), tmp_path)
    assert caught.value.hint is not None
    assert "resumes" in caught.value.hint
    (part,) = tmp_path.iterdir()
    assert part.suffix == ".part"
    assert part.read_bytes() == CONTENT[:40_000]
    hub.errors.clear()
    hub.requests.clear()
    assert fetch(source(), tmp_path).read_bytes() == CONTENT
    assert [request.range for request in hub.downloads()] == ["bytes=40000-"]
    assert not part.exists()


def test_ctrl_c_keeps_what_has_arrived(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("me/data", {"folder/big.bin": CONTENT})

    def stopped(url: str, stream, **options: object) -> None:  # type: ignore[no-untyped-def]
        stream.write(CONTENT[:70_000])
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("sts_lightning.data.fetch.download.http_get", stopped)
        fetch(source(), tmp_path)
    assert fetch(source(), tmp_path).read_bytes() == CONTENT
    assert [request.range for request in hub.downloads()] == ["bytes=70000-"]


def test_a_part_that_is_too_long_starts_again(hub: Hub, tmp_path: Path) -> None:
    hub.add("me/data", {"folder/big.bin": CONTENT})
    whole = fetch(source(), tmp_path)
    whole.with_name(f"{whole.name}.part").write_bytes(CONTENT + b"x")
    whole.unlink()
    assert fetch(source(), tmp_path).read_bytes() == CONTENT


def test_wrong_content_is_deleted(hub: Hub, tmp_path: Path) -> None:
    hub.add("me/data", {"folder/big.bin": CONTENT})
    stated = hashlib.sha256(b"what was published").hexdigest()
    hub.false_hashes["folder/big.bin"] = stated
    with pytest.raises(FetchError, match=stated) as caught:
        fetch(source(), tmp_path)
    assert caught.value.key == "wiki.digest"
    assert hashlib.sha256(CONTENT).hexdigest() in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_hub_that_states_another_hash_than_the_table(hub: Hub, tmp_path: Path) -> None:
    hub.add("me/data", {"folder/big.bin": CONTENT})
    with pytest.raises(FetchError, match="0" * 64) as caught:
        fetch(source(digest="0" * 64), tmp_path)
    assert caught.value.key == "wiki.digest"
    assert hub.downloads() == []


def test_both_hashes_of_a_small_file_are_checked(hub: Hub, tmp_path: Path) -> None:
    """The hub states git's name of it, the table another kind of hash."""
    hub.add("me/data", {"small.txt": b"a b\n"})
    digest = hashlib.sha256(b"a b\n").hexdigest()
    assert fetch(source(name="small.txt", digest=digest), tmp_path).read_bytes() == b"a b\n"
    with pytest.raises(FetchError, match="0" * 64):
        fetch(source(name="small.txt", digest="0" * 64), tmp_path)


@pytest.mark.parametrize(
    ("where", "key"),
    [
        (Source("wiki", "me/data", None, "main", {"none.txt": None}), "wiki.file"),
        (Source("wiki", "me/data", None, "0" * 40, {"folder/big.bin": None}), "wiki.revision"),
        (Source("wiki", "me/none", None, "main", {"folder/big.bin": None}), "wiki.repo"),
    ],
)
def test_what_is_not_there(where: Source, key: str, hub: Hub, tmp_path: Path) -> None:
    hub.add("me/data", {"folder/big.bin": CONTENT})
    with pytest.raises(FetchError) as caught:
        fetch(where, tmp_path)
    assert caught.value.key == key
    assert f"--source {key.split('.')[0]}." in str(caught.value.hint)
    assert list(tmp_path.iterdir()) == []


def test_gated_repository(hub: Hub, tmp_path: Path) -> None:
    hub.add("me/data", {"folder/big.bin": CONTENT})
    hub.errors["/resolve/"] = (403, "GatedRepo")
    with pytest.raises(FetchError) as caught:
        fetch(source(), tmp_path)
    assert caught.value.key == "wiki.repo"
    assert "hf auth login" in str(caught.value.hint)


def test_no_network(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    template = "http://127.0.0.1:9/{repo_id}/resolve/{revision}/{filename}"  # nothing listens there
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    with pytest.raises(FetchError, match=r"no connection to 127\.0\.0\.1") as caught:
        fetch(source(), tmp_path)
    assert caught.value.hint is not None


def test_offline_mode(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(FetchError) as caught:
        fetch(source(), tmp_path)
    assert caught.value.key == "HF_HUB_OFFLINE"


def test_too_little_room(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("me/data", {"folder/big.bin": CONTENT})
    usage = type("Usage", (), {"free": 99_999})
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage)
    with pytest.raises(StorageError) as caught:
        fetch(source(), tmp_path)
    assert caught.value.hint is not None
    assert hub.downloads() == []


def test_the_token_is_not_sent_to_the_storage(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.add("me/data", {"folder/big.bin": CONTENT, "small.txt": b"a"})
    fetch(source(), tmp_path)
    fetch(source(name="small.txt"), tmp_path)
    seen = {request.path.rpartition("/")[0]: request.authorization for request in hub.requests}
    assert seen["/lfs/big.bin"] is None
    assert seen["/datasets/me/data/resolve/main"] == "Bearer hf_secret"


def test_another_server(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.add("me/data", {"a.txt": b"some text\n"})
    url = hub.url + "/datasets/me/data/resolve/{revision}/{file}"
    place = Source("probing", None, url, "main", {"a.txt": git_blob_id(b"some text\n")})
    assert sha256(fetch(place, tmp_path)) == hashlib.sha256(b"some text\n").hexdigest()
    assert [request.authorization for request in hub.requests] == [None]
    wrong = Source("probing", None, url, "main", {"a.txt": git_blob_id(b"other")})
    with pytest.raises(FetchError) as caught:
        fetch(wrong, tmp_path)
    assert caught.value.key == "probing.digest"

"""Data sets from a small local server that speaks as much of the hub's protocol as `datasets` needs."""

from __future__ import annotations

import hashlib
import io
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sts_lightning.data.pairs_hub import PairsHubData
from sts_lightning.data.readers.hub import HubTable
from sts_lightning.errors import DataError
from tests.data.hub_folder import NAMES, own_caches, rows, save

OLD, NEW = "1" * 40, "2" * 40
REPO = "owner/pairs"


def parquet(count: int, start: int = 0) -> bytes:
    """Return a file of long sentences, not compressed."""
    pairs = [(f"{a} {i:0500d}", b, score) for i, (a, b, score) in enumerate(rows(count, start))]
    stream = io.BytesIO()
    table = pa.table({name: [pair[i] for pair in pairs] for i, name in enumerate(NAMES)})
    pq.write_table(table, stream, compression="none", use_dictionary=False)
    return stream.getvalue()


@dataclass
class Server:
    """Files by commit, and what was asked for."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    status: dict[str, tuple[int, str]] = field(default_factory=dict)
    sent: int = 0
    paths: list[str] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    server_state: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.reply()

    def do_HEAD(self) -> None:
        self.reply()

    def do_POST(self) -> None:
        self.reply(json.loads(self.rfile.read(int(self.headers["Content-Length"])) or "{}"))

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test's output clean."""

    def reply(self, body: Any = None) -> None:
        state, path = self.server_state, unquote(urlsplit(self.path).path)
        state.paths.append(path)
        for repo, (status, code) in state.status.items():
            if repo in path:
                return self.send(status, b"", {"X-Error-Code": code})
        if f"/{REPO}" not in path:
            return self.send(404, b"", {"X-Error-Code": "RepoNotFound"})
        found = re.search(r"/(?:resolve|revision|tree|paths-info)/([^/]+)/?(.*)", path)
        revision, name = (found[1], found[2]) if found else ("main", "")
        commit = NEW if revision == "main" else revision
        if commit not in state.commits:
            return self.send(404, b"", {"X-Error-Code": "RevisionNotFound"})
        files = state.commits[commit]
        if "/resolve/" not in path:
            return self.send_json(commit, files, path, body)
        if name not in files:
            return self.send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
        headers = {"X-Repo-Commit": commit, "ETag": f'"{hashlib.sha1(files[name]).hexdigest()}"'}
        return self.send_part(files[name], headers)

    def send_json(self, commit: str, files: dict[str, bytes], path: str, body: Any) -> None:
        wanted = body["paths"] if body else files
        entries = [
            {
                "type": "file",
                "path": name,
                "size": len(files[name]),
                "oid": hashlib.sha1(files[name]).hexdigest(),
            }
            for name in wanted
            if name in files
        ]
        info = {"id": REPO, "sha": commit, "siblings": [{"rfilename": name} for name in files]}
        answer: Any = entries if "/tree/" in path or "/paths-info/" in path else info
        self.send(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def send_part(self, content: bytes, headers: dict[str, str]) -> None:
        part = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if part is None:
            return self.send(200, content, headers)
        first, last = int(part[1]), int(part[2] or len(content) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        return self.send(206, content[first : last + 1], headers)

    def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
            self.server_state.sent += len(body)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    import datasets.config
    from huggingface_hub import HfFileSystem, constants

    state = Server()
    http = ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Handler,), {"server_state": state}))
    http.daemon_threads = True
    url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    for module in (constants, datasets.config):
        monkeypatch.setattr(module, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(datasets.config, "HF_ENDPOINT", url)
    monkeypatch.setattr(
        datasets.config, "HUB_DATASETS_URL", url + "/datasets/{repo_id}/resolve/{revision}/{path}"
    )
    monkeypatch.setattr(datasets.config, "USE_PARQUET_EXPORT", False)  # of another server
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    HfFileSystem.clear_instance_cache()
    with own_caches(tmp_path / "caches"):
        yield state
    HfFileSystem.clear_instance_cache()
    http.shutdown()
    http.server_close()
    thread.join()


@pytest.fixture
def published(server: Server) -> Server:
    """Two commits; the newer one has a dev split and other training pairs."""
    server.commits[OLD] = {"train.parquet": parquet(20)}
    server.commits[NEW] = {"train.parquet": parquet(30, 100), "validation.parquet": parquet(10, 500)}
    return server


def read(**options: Any) -> PairsHubData:
    data = PairsHubData(REPO, **{"batch_size": 4, "seed": 1, **options})
    data.setup()
    return data


@pytest.mark.parametrize("streaming", [False, True])
def test_from_the_server(streaming: bool, published: Server) -> None:
    more: dict[str, Any] = {"streaming": True, "limit": 1_000} if streaming else {}
    data = read(dev_split="validation", **more)
    assert (len(data.train), len(data.dev)) == (30, 10)
    assert data.train["sentence1"][0].startswith("first 100 ")
    assert data.counts[0].source == f"{REPO}@22222222, split train, training pairs"


@pytest.mark.parametrize("streaming", [False, True])
def test_a_revision_is_pinned(streaming: bool, published: Server) -> None:
    more: dict[str, Any] = {"streaming": True, "limit": 1_000} if streaming else {}
    data = read(revision=OLD, **more)
    assert len(data.train) + len(data.dev) == 20
    assert "@11111111" in data.counts[0].source
    with pytest.raises(DataError, match="no revision other") as caught:
        read(revision="other")
    assert caught.value.key == "data.revision"


@pytest.mark.slow
def test_streaming_downloads_a_part(server: Server) -> None:
    files = {f"train-{i:05d}-of-00008.parquet": parquet(2_000, 2_000 * i) for i in range(8)}
    server.commits[NEW] = files
    whole = sum(map(len, files.values()))
    data = read(streaming=True, limit=60)
    assert len(data.train) + len(data.dev) == 60
    assert server.sent < whole / 2
    server.sent = 0
    read(limit=60)
    assert server.sent >= whole


def test_without_network_the_cache_is_used(published: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets.config
    from huggingface_hub import constants

    online = read()
    for module in (constants, datasets.config):
        monkeypatch.setattr(module, "HF_HUB_OFFLINE", True)
    published.paths.clear()
    assert read().train.to_dict() == online.train.to_dict()
    assert read(revision=NEW[:12]).train.to_dict() == online.train.to_dict()
    with pytest.raises(DataError, match="holds the commit 2222") as caught:
        read(revision=OLD)
    assert caught.value.key == "data.revision"
    with pytest.raises(DataError, match="the hub cannot be reached") as caught:
        HubTable("owner/absent")
    assert "HF_HUB_OFFLINE" in (caught.value.hint or "")
    assert published.paths == []


def test_no_server(published: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets.config
    from huggingface_hub import constants

    for module, name in ((constants, "ENDPOINT"), (datasets.config, "HF_ENDPOINT")):
        monkeypatch.setattr(module, name, "http://127.0.0.1:9")
    template = "http://127.0.0.1:9/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)  # between attempts
    with pytest.raises(DataError, match=f"{REPO}: the hub cannot be reached") as caught:
        HubTable(REPO)
    assert "HF_ENDPOINT" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("answer", "message", "hint"),
    [
        ((404, "RepoNotFound"), "no such data set on the hub", "Check the spelling"),
        ((401, "RepoNotFound"), "no such data set on the hub", "HF_TOKEN"),
        ((403, "GatedRepo"), "is gated", "Accept its terms"),
        ((401, "GatedRepo"), "is gated", "HF_TOKEN"),
    ],
)
def test_data_sets_that_cannot_be_had(
    answer: tuple[int, str], message: str, hint: str, server: Server
) -> None:
    server.status["owner/closed"] = answer
    with pytest.raises(DataError, match=f"owner/closed: .*{message}") as caught:
        HubTable("owner/closed")
    assert caught.value.key == "data.path"
    assert hint in (caught.value.hint or "")


def test_a_script_is_not_run(server: Server, tmp_path: Path) -> None:
    server.commits[NEW] = {"pairs.py": b"from pathlib import Path; Path('ran').touch()"}
    with pytest.raises(DataError, match="never executed"):
        HubTable(REPO)
    save(tmp_path / "mine", "train", rows(3))
    (tmp_path / "mine" / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(DataError, match="never executed"):
        HubTable(str(tmp_path / "mine"))
    assert not list(tmp_path.rglob("ran"))

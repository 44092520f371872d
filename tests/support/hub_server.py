"""A local server that speaks the Hugging Face hub's protocol: file metadata, redirects, ranges, listings."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

LFS_FROM = 64
"""Size in bytes from which a file is stored as in the hub's LFS: with a SHA-256, served by another host."""

RESOLVE = re.compile(r"/(?P<kind>datasets/)?(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
API = re.compile(
    r"/api/(?P<kind>datasets|models)/(?P<repo>[^/]+/[^/]+)"
    r"(/(?P<what>revision|tree|paths-info)/(?P<revision>[^/]+)(/(?P<path>.*))?)?"
)


def git_blob_id(content: bytes) -> str:
    """Name of a file's content in git."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass
class Repo:
    """A repository: its files by commit; ``main`` is the last one."""

    commits: dict[str, dict[str, bytes]]

    def commit(self, revision: str) -> str | None:
        if revision == "main":
            return list(self.commits)[-1]
        return revision if revision in self.commits else None


@dataclass(frozen=True)
class Request:
    """A request as it arrived."""

    method: str
    path: str
    range: str | None
    authorization: str | None


@dataclass
class Hub:
    """Repositories of the server, faults to inject, and the requests it got.

    Attributes:
        url: Value for HF_ENDPOINT.
        repos: Repositories by name.
        lfs: Contents by SHA-256.
        requests: All requests, in order.
        cut: Number of body bytes after which the connection is dropped, by part of the path; used once.
        errors: Status and X-Error-Code of the answer, by part of the path.
        errors_after_cut: The same, from the moment at which a connection was dropped.
        false_hashes: SHA-256 that the server states instead of the true one, by file name.
    """

    url: str = ""
    repos: dict[str, Repo] = field(default_factory=dict)
    lfs: dict[str, bytes] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    cut: dict[str, int] = field(default_factory=dict)
    errors: dict[str, tuple[int, str]] = field(default_factory=dict)
    errors_after_cut: dict[str, tuple[int, str]] = field(default_factory=dict)
    false_hashes: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, files: dict[str, bytes], commit: str | None = None) -> str:
        """Add a commit with these files to a repository, and return it."""
        repo = self.repos.setdefault(name, Repo({}))
        commit = commit or hashlib.sha1(f"{name} {len(repo.commits)}".encode()).hexdigest()
        repo.commits[commit] = files
        for content in files.values():
            self.lfs[hashlib.sha256(content).hexdigest()] = content
        return commit

    def downloads(self) -> list[Request]:
        """Requests for the content of a file."""
        return [
            request for request in self.requests if request.method == "GET" and "/api/" not in request.path
        ]

    def digest(self, path: str, content: bytes) -> str:
        """The hash that the hub states: SHA-256 of a large file, git's name of a small one."""
        if path in self.false_hashes:
            return self.false_hashes[path]
        large = len(content) >= LFS_FROM
        return hashlib.sha256(content).hexdigest() if large else git_blob_id(content)


class Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.handle_request()

    def do_GET(self) -> None:
        self.handle_request()

    def do_POST(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.handle_request()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test's output clean."""

    def handle_request(self) -> None:
        path = unquote(urlsplit(self.path).path)
        request = Request(self.command, path, self.headers.get("Range"), self.headers.get("Authorization"))
        self.hub.requests.append(request)
        for part, (status, code) in self.hub.errors.items():
            if part in path:
                self.answer(status, b"", {"X-Error-Code": code, "X-Error-Message": code})
                return
        if path.startswith("/lfs/"):
            digest = path.rpartition("/")[2]
            self.send_content(self.hub.lfs[digest], {"ETag": f'"{digest}"'})
        elif match := RESOLVE.fullmatch(path):
            self.resolve(**match.groupdict())
        elif match := API.fullmatch(path):
            self.api(**match.groupdict())
        else:
            self.answer(404, b"", {})

    def find(self, repo: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
        """Return the commit and its files, or answer why there is none."""
        if repo not in self.hub.repos:
            self.answer(401, b"", {"X-Error-Code": "RepoNotFound"})
            return None
        commit = self.hub.repos[repo].commit(revision)
        if commit is None:
            self.answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
            return None
        return commit, self.hub.repos[repo].commits[commit]

    def resolve(self, kind: str | None, repo: str, revision: str, path: str) -> None:
        found = self.find(repo, revision)
        if found is None:
            return
        commit, files = found
        headers = {"X-Repo-Commit": commit}
        if path not in files:
            self.answer(404, b"", {**headers, "X-Error-Code": "EntryNotFound"})
            return
        content = files[path]
        digest = self.hub.digest(path, content)
        if len(content) < LFS_FROM:
            self.send_content(content, {**headers, "ETag": f'"{digest}"'})
            return
        # Another host name, as the hub's CDN has: the token must not be sent there.
        host = self.hub.url.replace("127.0.0.1", "localhost")
        headers |= {
            "X-Linked-Etag": f'"{digest}"',
            "X-Linked-Size": str(len(content)),
            "ETag": f'"{git_blob_id(content)}"',
            "Location": f"{host}/lfs/{path.rpartition('/')[2]}/{hashlib.sha256(content).hexdigest()}",
        }
        self.answer(302, b"", headers)

    def api(self, kind: str, repo: str, what: str | None, revision: str | None, path: str | None) -> None:
        found = self.find(repo, revision or "main")
        if found is None:
            return
        commit, files = found
        if what == "tree":
            inside = [name for name in files if name.startswith(f"{path.rstrip('/')}/" if path else "")]
            listing: Any = [self.entry(name, files[name]) for name in inside]
        elif what == "paths-info":
            paths = json.loads(self.body)["paths"]
            listing = [self.entry(name, files[name]) for name in paths if name in files]
        else:
            siblings = [{"rfilename": name} for name in files]
            listing = {"id": repo, "sha": commit, "siblings": siblings, "gated": False}
            listing |= {"private": False, "disabled": False, "tags": [], "downloads": 0, "likes": 0}
        self.answer(200, json.dumps(listing).encode(), {"Content-Type": "application/json"})

    def entry(self, name: str, content: bytes) -> dict[str, Any]:
        entry: dict[str, Any] = {"type": "file", "path": name, "size": len(content)}
        entry["oid"] = git_blob_id(content)
        if len(content) >= LFS_FROM:
            digest = hashlib.sha256(content).hexdigest()
            entry["lfs"] = {"oid": digest, "sha256": digest, "size": len(content), "pointerSize": 134}
        return entry

    def send_content(self, content: bytes, headers: dict[str, str]) -> None:
        start, status = 0, 200
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if match:
            start, status = int(match[1]), 206
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            if start >= len(content):
                self.answer(416, b"", {"Content-Range": f"bytes */{len(content)}"})
                return
        self.answer(status, content[start:], {**headers, "Accept-Ranges": "bytes"})

    def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        for part, count in list(self.hub.cut.items()):
            if part in self.path:
                del self.hub.cut[part]
                self.hub.errors |= self.hub.errors_after_cut
                self.wfile.write(body[:count])
                self.wfile.flush()
                self.close_connection = True
                return
        self.wfile.write(body)


@contextmanager
def serve() -> Iterator[Hub]:
    """Run a server without repositories, on a free port of this machine."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("OneHub", (Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A running hub, to which the libraries of this process and of child processes are directed."""
    import datasets.config
    from huggingface_hub import constants

    cache = tmp_path_factory.mktemp("hub_cache")
    with serve() as running:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "ENDPOINT", running.url)
        template = running.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(datasets.config, "HF_ENDPOINT", running.url)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache / "hub"))
        monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache / "datasets")
        for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.setenv("HF_HOME", str(cache))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
        yield running

"""The part of the local hub that takes uploads: repositories, branches, LFS, commits."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from tests.support.hub_server import Handler, Repo

PREUPLOAD = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)/preupload/(?P<revision>.+)")
COMMIT = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)/commit/(?P<revision>.+)")
BRANCH = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)/branch/(?P<revision>.+)")
BATCH = re.compile(r"/(?P<repo>[^/]+/[^/]+)\.git/info/lfs/objects/batch")


def take(handler: Handler, path: str) -> bool:
    """Answer a request that changes something; return whether it was one."""
    if path == "/api/repos/create":
        _create(handler)
    elif path == "/api/validate-yaml":
        _validate(handler)
    elif (
        path.startswith("/lfs-upload/") and handler.command == "PUT"
    ):  # signed address: no token is sent there
        digest = path.rpartition("/")[2]
        assert hashlib.sha256(handler.body).hexdigest() == digest
        handler.hub.lfs[digest] = handler.body
        _json(handler, 200, {})
    elif match := BATCH.fullmatch(path):
        if _writable(handler, match["repo"]) is not None:
            _batch(handler)
    elif match := PREUPLOAD.fullmatch(path) or COMMIT.fullmatch(path) or BRANCH.fullmatch(path):
        if _writable(handler, match["repo"]) is not None:
            answers = {PREUPLOAD: _preupload, COMMIT: _commit, BRANCH: _branch}
            answers[match.re](handler, match["repo"], match["revision"])
    else:
        return False
    return True


def _json(handler: Handler, status: int, values: Any) -> None:
    handler.answer(status, json.dumps(values).encode(), {"Content-Type": "application/json"})


def _is_known(handler: Handler) -> bool:
    known = handler.headers.get("Authorization") == f"Bearer {handler.hub.token}"
    if not known:
        echo = handler.headers.get("Authorization", "")
        handler.answer(401, b"", {"X-Error-Message": f"Invalid credentials: {echo}"})
    return known


def _writable(handler: Handler, repo: str) -> Repo | None:
    if not _is_known(handler):
        return None
    if repo not in handler.hub.repos:
        handler.answer(404, b"", {"X-Error-Code": "RepoNotFound"})
    return handler.hub.repos.get(repo)


def _create(handler: Handler) -> None:
    if not _is_known(handler):
        return
    asked = json.loads(handler.body)
    name = f"{asked['organization']}/{asked['name']}"
    exists = name in handler.hub.repos
    if not exists:
        handler.hub.add(name, {".gitattributes": b""})
        handler.hub.repos[name].private = asked.get("visibility") == "private"
    _json(handler, 409 if exists else 200, {"url": f"{handler.hub.url}/{name}"})


def _validate(handler: Handler) -> None:
    """Check the metadata of a card as far as YAML goes, and that a licence is stated."""
    header = json.loads(handler.body)["content"].split("---\n")[1]
    wrong = [] if yaml.safe_load(header).get("license") else [{"message": "no license"}]
    _json(handler, 400 if wrong else 200, {"errors": wrong, "warnings": []})


def _batch(handler: Handler) -> None:
    asked = json.loads(handler.body)
    assert asked["operation"] == "upload"
    objects = []
    for one in asked["objects"]:
        href = f"{handler.hub.url}/lfs-upload/{one['oid']}"
        actions = {} if one["oid"] in handler.hub.lfs else {"actions": {"upload": {"href": href}}}
        objects.append({"oid": one["oid"], "size": one["size"], **actions})
    _json(handler, 200, {"transfer": "basic", "objects": objects})


def _preupload(handler: Handler, repo: str, revision: str) -> None:
    from tests.support.hub_server import LFS_FROM

    files = [
        {
            "path": file["path"],
            "uploadMode": "lfs" if file["size"] >= LFS_FROM else "regular",
            "shouldIgnore": False,
        }
        for file in json.loads(handler.body)["files"]
    ]
    _json(handler, 200, {"files": files})


def _branch(handler: Handler, repo: str, revision: str) -> None:
    target = handler.hub.repos[repo]
    main = target.commit("main")
    assert main is not None
    exists = target.commit(revision) is not None
    target.branches = {"main": main, revision: main, **target.branches}
    _json(handler, 409 if exists else 200, {})


def _commit(handler: Handler, repo: str, revision: str) -> None:
    target = handler.hub.repos[repo]
    parent = target.commit(revision)
    if parent is None:
        handler.answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
        return
    files = dict(target.commits[parent])
    for line in handler.body.splitlines():
        item = json.loads(line)
        value = item["value"]
        if item["key"] == "file":
            files[value["path"]] = base64.b64decode(value["content"])
        elif item["key"] == "lfsFile":
            files[value["path"]] = handler.hub.lfs[value["oid"]]
        elif item["key"] == "deletedFile":
            del files[value["path"]]  # the hub rejects the deletion of a file that does not exist
    commit = handler.hub.add(repo, files)
    if target.branches:
        target.branches[revision] = commit
    url = f"{handler.hub.url}/{repo}/commit/{commit}"
    _json(handler, 200, {"success": True, "commitOid": commit, "commitUrl": url})

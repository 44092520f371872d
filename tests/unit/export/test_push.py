"""Uploads of exported folders to a local hub."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import ModelCard, constants, snapshot_download

from sts_lightning.core.errors import ConfigError, PushError
from sts_lightning.export.push import Target, push
from tests.support.hub_server import Hub

FILES = {
    "README.md": b"---\nlicense: mit\n---\n# Mine\n",
    "config.json": b"{}",
    "model.safetensors": b"weights " * 100,
    "1_Pooling/config.json": b'{"x": 1}',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        path = tmp_path / "my export" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (tmp_path / "secret.txt").write_text("beside the folder")
    return tmp_path / "my export"


@pytest.fixture(autouse=True)
def token(hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)  # the local hub speaks LFS
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no_token"))
    monkeypatch.setenv("HF_TOKEN", hub.token)
    return hub.token


def uploaded(hub: Hub, repo: str, revision: str = "main") -> dict[str, bytes]:
    commit = hub.repos[repo].commit(revision)
    assert commit is not None
    return {name: content for name, content in hub.repos[repo].commits[commit].items() if name[0] != "."}


def test_exactly_the_folder_is_uploaded(hub: Hub, folder: Path) -> None:
    address = push(folder, Target("me/mine"))
    assert uploaded(hub, "me/mine") == FILES
    assert address == f"{hub.url}/me/mine/commit/{hub.repos['me/mine'].commit('main')}"
    assert not hub.repos["me/mine"].private
    copy = Path(snapshot_download("me/mine"))
    assert {name: (copy / name).read_bytes() for name in FILES} == FILES
    assert ModelCard.load("me/mine").data.license == "mit"
    large = [request for request in hub.requests if request.path.startswith("/lfs-upload/")]
    assert len(large) == 1
    assert {request.authorization for request in large} == {None}  # the storage is another host


def test_again_with_other_weights(hub: Hub, folder: Path) -> None:
    push(folder, Target("me/mine"))
    (folder / "model.safetensors").write_bytes(b"others " * 100)
    push(folder, Target("me/mine"))
    assert uploaded(hub, "me/mine")["model.safetensors"] == b"others " * 100


@pytest.mark.parametrize("branch", [None, "seed-2"])
def test_what_the_new_export_lacks_is_deleted(hub: Hub, folder: Path, branch: str | None) -> None:
    target = Target("me/mine", branch=branch)
    push(folder, target)
    repo = hub.repos["me/mine"]
    by_hand = {"notes.md": b"by hand", "2_Normalize/notes.md": b"by hand", ".gitattributes": b"*.bin lfs"}
    before = repo.commits[str(repo.commit(branch or "main"))]
    commit = hub.add("me/mine", {**before, **by_hand})
    repo.branches[branch or "main"] = commit
    (folder / "1_Pooling/config.json").unlink()
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    push(folder, target)
    files = repo.commits[str(repo.commit(branch or "main"))]
    ours = {name: FILES[name] for name in ("README.md", "config.json")}
    weights = {"adapter_model.safetensors": FILES["model.safetensors"]}
    assert files == {**by_hand, **ours, **weights}


def test_other_files_stay(hub: Hub, folder: Path) -> None:
    hub.add("me/mine", {"config.json": b"old", "old.bin": b"old"})
    push(folder, Target("me/mine"))
    assert uploaded(hub, "me/mine") == {**FILES, "old.bin": b"old"}


def test_a_private_repository_and_a_branch(hub: Hub, folder: Path) -> None:
    for _ in range(2):
        push(folder, Target("me/mine", private=True, branch="seed-2"))
    assert hub.repos["me/mine"].private
    assert uploaded(hub, "me/mine", "seed-2") == FILES
    assert uploaded(hub, "me/mine") == {}


def test_a_public_repository_is_not_taken_for_a_private_one(hub: Hub, folder: Path) -> None:
    hub.add("me/mine", {"config.json": b"old"})
    with pytest.raises(ConfigError) as raised:
        push(folder, Target("me/mine", private=True))
    assert raised.value.key == "private"
    assert uploaded(hub, "me/mine") == {"config.json": b"old"}


@pytest.mark.parametrize(
    "name", ["mine", "a/b/c", "me/", "/mine", "me/a..b", "me/x y", "", "me/-x", "https://h/a/b"]
)
def test_a_name_that_the_hub_does_not_have(name: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Target(name).check()
    assert (raised.value.key, raised.value.hint) == ("push", "Give it as OWNER/NAME.")


def test_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    Target("me/mine").check()
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(PushError) as raised:
        Target("me/mine").check()
    assert raised.value.key == "HF_TOKEN"


@pytest.mark.parametrize(
    ("part", "status", "key"),
    [
        ("/api/repos/create", 401, "HF_TOKEN"),
        ("/api/repos/create", 403, "push"),
        ("/preupload/", 403, "push"),
        ("/commit/", 403, "push"),
        ("/api/validate-yaml", 400, "push"),
        ("/commit/", 422, "push"),
    ],
)
def test_what_the_hub_rejects(part: str, status: int, key: str, hub: Hub, folder: Path, token: str) -> None:
    hub.errors[part] = (status, f"no, {token}")
    with pytest.raises(PushError) as raised:
        push(folder, Target("me/mine", branch="b"))
    assert raised.value.key == key
    assert str(status) in str(raised.value) or status in (400, 422)
    assert f"`hf upload me/mine '{folder}' . --revision b`" in str(raised.value.hint)
    assert token not in str(raised.value)
    assert {path.name for path in folder.iterdir()} == {name.partition("/")[0] for name in FILES}


def test_a_token_that_the_hub_echoes(hub: Hub, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_reader")
    with pytest.raises(PushError) as raised:
        push(folder, Target("me/mine"))
    assert raised.value.key == "HF_TOKEN"
    assert "hf_reader" not in str(raised.value)
    assert hub.repos == {}


def test_without_a_network(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        constants, "ENDPOINT", "http://127.0.0.1:9"
    )  # the port discard, at which nobody listens
    with pytest.raises(PushError) as raised:
        push(folder, Target("me/mine"))
    assert raised.value.key == "HF_ENDPOINT"
    assert "`hf upload me/mine " in str(raised.value.hint)

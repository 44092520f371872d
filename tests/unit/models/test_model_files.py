"""Files of a model, in a folder and on the hub."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError, RepositoryNotFoundError

from sts_lightning.core.errors import CheckpointError, ConfigError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading import hub as hub_module
from sts_lightning.models.loading.hub import ModelFiles
from tests.support.hub_server import Hub


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"x": 1}')
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "null.json").write_text("null")
    files = ModelFiles(str(tmp_path))
    assert files.path("a.json") == tmp_path / "a.json"
    assert files.path("b.json") is None
    assert (files.json("a.json", dict), files.json("b.json", dict), files.json("list.json", list)) == (
        {"x": 1},
        {},
        [1],
    )
    for name in ("broken.json", "list.json", "null.json"):
        with pytest.raises(CheckpointError, match=name):
            files.json(name, dict)


def test_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An absent file is known to be absent only if the hub says so."""
    monkeypatch.setattr("sts_lightning.models.loading.hub.hub_is_reachable", lambda: True)
    files = ModelFiles("someone/model@abc")
    asked = []

    def download(source: str, relative: str, **options: object) -> str:
        asked.append((source, relative, options))
        errors = {
            "absent": EntryNotFoundError,
            "unreachable": LocalEntryNotFoundError,
        }
        if relative in errors:
            raise errors[relative]("no")
        return str(tmp_path / relative)

    monkeypatch.setattr(hub_module, "hf_hub_download", download)
    assert files.path("there") == tmp_path / "there"
    assert asked == [("someone/model", "there", {"revision": "abc"})]
    assert files.path("absent") is None
    with pytest.raises(ConfigError, match="unreachable") as caught:
        files.path("unreachable")
    assert caught.value.key == "model.name"


def test_what_the_hub_lacked_is_known_without_it(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node without a network loads a model that was loaded before on one with it."""
    monkeypatch.setattr("sts_lightning.models.loading.hub.hub_is_reachable", lambda: True)
    hub.add("me/model", {"config.json": b"{}"})
    online = ModelFiles("me/model")
    config = online.path("config.json")
    assert config is not None
    assert online.path("modules.json") is None
    monkeypatch.setattr("sts_lightning.models.loading.hub.hub_is_reachable", lambda: False)
    offline, asked = ModelFiles("me/model"), len(hub.requests)
    assert offline.path("config.json") == config
    assert offline.path("modules.json") is None
    with pytest.raises(ConfigError, match=r"its cache lacks never_asked.json"):
        offline.path("never_asked.json")
    assert len(hub.requests) == asked


def test_a_model_that_the_hub_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sts_lightning.models.loading.hub.hub_is_reachable", lambda: True)

    def download(*_: object, **__: object) -> str:
        error = RepositoryNotFoundError.__new__(RepositoryNotFoundError)
        OSError.__init__(error, "404: no such repository")
        raise error

    monkeypatch.setattr(hub_module, "hf_hub_download", download)
    with pytest.raises(ConfigError, match="neither a folder nor") as caught:
        ModelFiles("someone/typo").path("modules.json")
    assert caught.value.key == "model.name"


def test_a_gated_model_names_the_page_of_its_licence(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both by its files and by transformers."""
    monkeypatch.setattr("sts_lightning.models.loading.hub.hub_is_reachable", lambda: True)
    hub.errors["owner/gated"] = (401, "GatedRepo")
    for load in (lambda name: ModelFiles(name).path("modules.json"), SentenceEncoder.from_pretrained):
        with pytest.raises(ConfigError, match="owner/gated@abc is gated") as caught:
            load("owner/gated@abc")
        assert f" {hub.url}/owner/gated," in (caught.value.hint or "")
        assert "hf auth login" in (caught.value.hint or "")
        assert caught.value.key == "model.name"

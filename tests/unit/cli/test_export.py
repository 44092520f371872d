"""The command `sts-lightning export`."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import constants

from sts_lightning.runs.folder import RunFolder
from tests.support.command_line import leaves
from tests.support.hub_server import Hub
from tests.support.run_entries import write_finished


@pytest.mark.parametrize("place", ["FILE/x", "FILE/x/y", "/proc/x"])
def test_an_export_to_a_place_that_cannot_be_made(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(RunFolder, "load_config", lambda *_: None)
    place = place.replace("FILE", str(tmp_path / "file"))
    assert f"{place} cannot be made" in leaves("export", "run", place, capsys=capsys)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--push", "mine"], "OWNER/NAME"),
        (["--push", "me/mine"], "HF_TOKEN"),
    ],
)
def test_a_push_that_cannot_be_is_rejected_before_anything_is_read(
    options: list[str],
    words: str,
    hub: Hub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no_token"))
    assert words in leaves("export", "no_run", str(tmp_path / "out"), *options, capsys=capsys)
    assert not (tmp_path / "out").exists()
    assert hub.requests == []


def test_an_adapter_on_a_private_base_is_not_pushed(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_TOKEN", hub.token)
    write_finished(tmp_path / "run")
    places = [str(tmp_path / "run"), str(tmp_path / "out")]
    said = leaves("export", *places, "--format", "adapter", "--push", "me/mine", capsys=capsys)
    assert "--format merged" in said
    assert not (tmp_path / "out").exists()
    assert hub.repos == {}

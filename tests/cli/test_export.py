"""The command `sts-lightning export`."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.runs.folder import RunFolder
from tests.cli.helpers import leaves


@pytest.mark.parametrize("place", ["FILE/x", "FILE/x/y", "/proc/x"])
def test_an_export_to_a_place_that_cannot_be_made(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(RunFolder, "load_config", lambda *_: None)
    place = place.replace("FILE", str(tmp_path / "file"))
    assert f"{place} cannot be made" in leaves("export", "run", place, capsys=capsys)

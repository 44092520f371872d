from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.runs.folder import RunFolder


def test_only_empty_folders_below_the_working_directory_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    monkeypatch.chdir(_make(here))
    RunFolder(_make(here / "runs" / "a" / "1")).remove_if_empty()
    assert list(here.iterdir()) == []
    RunFolder(_make(here / "run")).remove_if_empty()
    assert here.is_dir()
    RunFolder(_make(elsewhere / "run")).remove_if_empty()
    assert elsewhere.is_dir()
    assert not (elsewhere / "run").exists()
    kept = _make(here / "runs" / "full")
    (kept / "metrics.json").write_text("{}")
    RunFolder(kept).remove_if_empty()
    RunFolder(_make(here / "runs" / "empty")).remove_if_empty()
    assert [path.name for path in (here / "runs").iterdir()] == ["full"]


def _make(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def test_a_run_is_named_as_one_would_type_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert RunFolder(tmp_path / "runs" / "x").name == "runs/x"
    assert RunFolder(Path("runs/x")).name == "runs/x"
    assert RunFolder(Path("/elsewhere/x")).name == "/elsewhere/x"

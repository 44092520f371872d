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


def test_files_of_a_process_killed_while_writing_are_removed(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.checkpoints.mkdir()
    kept = [run.path / ".lock", run.path / ".notes", run.checkpoint("last"), run.metrics_file]
    kept += [run.model() / "config.json", run.path / ".mine.abc" / "x"]
    stale = [run.path / ".metrics.json.77", run.checkpoints / ".last.ckpt.12345"]
    stale += [run.path / ".model.h2_x" / "model" / "x", run.checkpoints / ".step_7.k3z" / "step_7" / "x"]
    for path in (*kept, *stale):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    run.remove_temporaries()
    assert all(path.exists() for path in kept)
    assert not any(path.exists() for path in stale)
    assert {path.name for path in run.path.iterdir()} == {
        *(".lock", ".notes", ".mine.abc"),
        *("checkpoints", "metrics.json", "model"),
    }

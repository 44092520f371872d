from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.runs.folder import environment, remove_empty, run_name


def test_only_empty_folders_below_the_working_directory_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    monkeypatch.chdir(_make(here))
    remove_empty(_make(here / "runs" / "a" / "1"))
    assert list(here.iterdir()) == []
    remove_empty(_make(here / "run"))
    assert here.is_dir()
    remove_empty(_make(elsewhere / "run"))
    assert elsewhere.is_dir()
    assert not (elsewhere / "run").exists()
    kept = _make(here / "runs" / "full")
    (kept / "metrics.json").write_text("{}")
    remove_empty(kept)
    remove_empty(_make(here / "runs" / "empty"))
    assert [path.name for path in (here / "runs").iterdir()] == ["full"]


def _make(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def test_a_run_is_named_as_one_would_type_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_name(tmp_path / "runs" / "x") == "runs/x"
    assert run_name(Path("runs/x")) == "runs/x"
    assert run_name(Path("/elsewhere/x")) == "/elsewhere/x"


def test_environment_names_versions_and_commit() -> None:
    facts = environment()
    assert {"python", "torch", "lightning", "transformers"} <= facts["versions"].keys()
    assert facts["git_commit"] is None or len(facts["git_commit"].partition("+")[0]) == 40

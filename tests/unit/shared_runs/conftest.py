"""A finished run, and code that a sender of run folders might want to be run."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pytest

from tests.support import run_entries as entries
from tests.support.run_entries import write_finished


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("runs") / "finished"
    write_finished(folder)
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    entries.no_suite(monkeypatch)
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "marker"


@pytest.fixture
def payload(tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The dotted name of a function; importing its module writes the marker."""
    module = f"payload_{uuid.uuid4().hex}"
    (tmp_path / f"{module}.py").write_text(entries.PAYLOAD.format(marker=str(marker)))
    monkeypatch.syspath_prepend(tmp_path)
    return f"{module}.run"

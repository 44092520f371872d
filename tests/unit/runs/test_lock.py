"""The lock of a run folder."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from sts_lightning.core import files
from sts_lightning.core.processes import is_first_process
from sts_lightning.runs.lock import LOCK, locked


def test_a_lock_file_left_behind_means_nothing(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("pid 1 on host elsewhere\n")
    with locked(tmp_path):
        (tmp_path / "result").touch()
    assert sorted(path.name for path in tmp_path.iterdir()) == [LOCK, "result"]


def test_a_folder_in_which_nothing_was_written_is_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "found").mkdir()
    for name in ("found", "made"):
        with locked(tmp_path / name):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["found"]
    assert list((tmp_path / "found").iterdir()) == []


def test_a_file_system_without_locks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Unsupported(files.FileLock):  # type: ignore[misc]
        def acquire(self, *args: object, **kwargs: object) -> None:  # type: ignore[override]
            raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(files, "FileLock", Unsupported)
    with locked(tmp_path):
        (tmp_path / "result").touch()
    assert f"{tmp_path}: no locks on this file system" in caplog.text


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    run.mkdir()
    elsewhere.write_text("theirs")
    (run / LOCK).symlink_to(elsewhere)
    with pytest.raises(OSError, match=r"run/\.lock"), locked(run):
        pass
    assert elsewhere.read_text() == "theirs"


@pytest.mark.parametrize(
    ("variables", "first"),
    [
        ({}, True),
        ({"LOCAL_RANK": "0", "NODE_RANK": "0"}, True),
        ({"LOCAL_RANK": "1"}, False),
        ({"NODE_RANK": "1"}, False),
        ({"SLURM_PROCID": "3"}, False),
        ({"RANK": "8", "LOCAL_RANK": "0"}, False),
        ({"RANK": "0", "SLURM_PROCID": "3"}, True),
    ],
)
def test_first_of_several_processes(
    variables: dict[str, str], first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_first_process() is first

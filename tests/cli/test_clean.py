"""The command `sts-lightning clean`."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from sts_lightning.cli.main import main
from sts_lightning.runs import cleaning
from sts_lightning.runs.cleaning import Leftover
from tests.cli.helpers import leaves
from tests.runs.test_cleaning import write

Capture = pytest.CaptureFixture[str]


def test_nothing_is_removed_without_delete(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    run = write(tmp_path / "run")
    before = run.checkpoint("last").read_bytes()
    main(["clean", str(tmp_path)])
    assert caplog.messages[-1] == "0.0 MB in 1 run; add --delete to free them."
    assert run.checkpoint("last").read_bytes() == before
    main(["clean", str(tmp_path), "--delete"])
    assert caplog.messages[-1] == "0.0 MB freed in 1 run."
    assert len(run.checkpoint("last").read_bytes()) < len(before) - 8000
    main(["clean", str(tmp_path)])
    assert caplog.messages[-1] == f"Nothing to free in {tmp_path}."


def test_a_run_that_cannot_be_written_does_not_keep_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capsys: Capture
) -> None:
    first, second = write(tmp_path / "a"), write(tmp_path / "b")

    def drop(found: Leftover) -> int:
        if found.run.path == first.path:
            raise OSError(errno.EROFS, "Read-only file system", str(first.path / ".lock"))
        return cleaning_drop(found)

    cleaning_drop = cleaning.drop
    monkeypatch.setattr(cleaning, "drop", drop)
    before = second.checkpoint("last").stat().st_size
    assert "1 of the runs could not be written" in leaves("clean", str(tmp_path), "--delete", capsys=capsys)
    assert "Read-only file system" in caplog.text
    assert second.checkpoint("last").stat().st_size < before - 8000


def test_a_folder_that_is_not_there(tmp_path: Path, capsys: Capture) -> None:
    assert "is not a folder" in leaves("clean", str(tmp_path / "absent"), capsys=capsys)


@pytest.mark.parametrize("command", ["clean", "runs"])
def test_a_blank_folder_is_not_the_working_directory(command: str, capsys: Capture) -> None:
    assert "the folder is blank" in leaves(command, "", capsys=capsys)

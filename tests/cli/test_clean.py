"""The command `sts-lightning clean`."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.cli.main import main
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


def test_a_folder_that_is_not_there(tmp_path: Path, capsys: Capture) -> None:
    assert "is not a folder" in leaves("clean", str(tmp_path / "absent"), capsys=capsys)


@pytest.mark.parametrize("command", ["clean", "runs"])
def test_a_blank_folder_is_not_the_working_directory(command: str, capsys: Capture) -> None:
    assert "the folder is blank" in leaves(command, "", capsys=capsys)

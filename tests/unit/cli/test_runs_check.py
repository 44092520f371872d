"""`sts-lightning runs check`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sts_lightning.cli.main import main
from sts_lightning.runs.folder import RunFolder
from tests.support.command_line import leaves
from tests.support.run_entries import write_finished


def test_one_line_for_each_check_and_an_exit_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    run = RunFolder(tmp_path / "run")
    write_finished(run.path)
    caplog.set_level("INFO")
    main(["runs", "check", str(run.path)])
    lines = [line for line in caplog.messages if line.startswith(("ok ", "wrong ", "not checked "))]
    assert len(lines) == 3
    assert all(line.startswith("ok ") for line in lines), lines
    shutil.rmtree(run.model())
    shutil.rmtree(run.checkpoints)
    caplog.clear()
    failed = f"1 of 3 checks of {run.path} have failed."
    assert failed in leaves("runs", "check", str(run.path), capsys=capsys)
    assert "wrong        model: " in caplog.text
    assert "1 of 1 checks" in leaves("runs", "check", str(tmp_path / "absent"), capsys=capsys)

"""`sts-lightning runs check`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sts_lightning.cli.main import main
from sts_lightning.runs.folder import RunFolder
from tests.support.command_line import leaves
from tests.support.run_entries import write_finished


def test_one_line_for_each_thing_and_an_exit_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    run = RunFolder(tmp_path / "run")
    write_finished(run.path)
    caplog.set_level("INFO")
    main(["runs", "check", str(run.path)])
    names = ["config.yaml", "metrics.json", "model"]
    assert [line.partition(":")[0] for line in caplog.messages if line.startswith(tuple(names))] == names
    shutil.rmtree(run.model())
    shutil.rmtree(run.checkpoints)
    assert "model does not exist" in leaves("runs", "check", str(run.path), capsys=capsys)

"""What only shows the results of a run never costs them."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.report import drop_optimizer


def test_a_full_disk_after_the_results_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    run = RunFolder(tmp_path)
    run.write_checkpoint("last", {"state_dict": {}, "global_step": 1, "optimizer_states": [1]})
    monkeypatch.setattr(RunFolder, "write_checkpoint", full)
    drop_optimizer(run)
    assert "the state of the optimiser stays in" in caplog.text
    assert run.read_checkpoint("last")["optimizer_states"] == [1]

"""Jobs as SLURM arrays, with submitit's local executor in place of SLURM."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.core.errors import UserError
from sts_lightning.sweep.cluster import submit_to_slurm, watch
from tests.unit.sweep.conftest import jobs
from tests.unit.sweep.test_slurm import _quick as _quick


@pytest.mark.usefixtures("slurm")
def test_submitit_runs_fails_and_skips(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    planned = jobs(tmp_path, "one", "fail", "three")
    with pytest.raises(UserError, match=r"1 of 3 jobs failed; see .*fail1/output.log"):
        watch(planned, submit_to_slurm(planned, tmp_path / "submitit", timeout_min=5))
    assert [job.state for job in planned] == ["done", "failed", "done"]
    assert [job.score for job in planned] == [53.0, None, 55.0]
    assert "error: it went wrong; see" in caplog.text
    again = jobs(tmp_path, "one")
    watch(again, submit_to_slurm(again, tmp_path / "submitit", timeout_min=5))
    assert again[0].state == "was done"

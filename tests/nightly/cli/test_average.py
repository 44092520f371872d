"""`sts-lightning average`."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.cli.main import main
from sts_lightning.runs.listing import find_runs, group_seeds
from tests.support.averaged_runs import write_run
from tests.support.command_line import leaves


def test_writes_a_run_and_prints_what_was_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [str(write_run(tmp_path / f"seed{seed}", 0.02, seed)) for seed in (1, 2)]
    main(["average", *runs, "--to", str(tmp_path / "mean"), "--with-start", "0.5", "--with-start", "0.7"])
    printed = capsys.readouterr().out
    assert all(run in printed for run in ("seed1", "seed2"))
    assert all(f"average, share {share} " in printed for share in ("0.5", "0.7", "1"))
    main(["runs", "check", str(tmp_path / "mean")])
    groups = group_seeds(find_runs(tmp_path))
    assert sorted(len(group.runs) for group in groups) == [1, 2]  # no seed of its parents' system
    assert leaves("average", *runs, "--to", str(tmp_path / "mean"), capsys=capsys).startswith("error: ")
    assert "exists already" in leaves("average", *runs, "--to", str(tmp_path / "mean"), capsys=capsys)

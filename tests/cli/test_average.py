"""`sts-lightning average`."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.cli.main import main
from sts_lightning.runs.listing import find_runs, group_seeds
from tests.cli.helpers import leaves
from tests.workflows.averaged_runs import write_run


@pytest.mark.slow  # takes seconds
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a"], "one run has no average"),
        (["a", "./a"], "runs: a is named twice, and"),
        (["a", "b"], "a is not a run folder"),
        (["loop", "b"], "loop is not a run folder"),
        (["a", "b", "--with-start", "1.5"], "--with-start"),
    ],
)
def test_rejects(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    assert message in leaves("average", *arguments, "--to", "mean", capsys=capsys)
    assert not Path("mean").exists()

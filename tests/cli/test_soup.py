"""The command `sts-lightning soup`."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.cli.main import main
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.listing import find_runs, group_seeds
from tests.cli.helpers import leaves
from tests.workflows.soup_runs import write_run


@pytest.mark.slow  # takes seconds
def test_writes_a_run_and_prints_what_was_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    runs = [str(write_run(tmp_path / f"seed{seed}", 0.02, seed)) for seed in (1, 2)]
    with caplog.at_level("INFO"):
        main(["soup", *runs, "--to", str(tmp_path / "soup"), "--greedy", "--with-start", "0.5"])
    printed = capsys.readouterr().out
    assert caplog.text.count("dev Spearman") == 4  # two runs, their average, and that with the start
    assert printed.count("average ") == 3
    assert "alpha 0.5" in printed
    assert len(RunFolder(tmp_path / "soup").history()) == 3
    main(["verify", str(tmp_path / "soup")])
    groups = group_seeds(find_runs(tmp_path))
    assert sorted(len(group.runs) for group in groups) == [1, 2]  # no seed of its parents' system
    assert leaves("soup", *runs, "--to", str(tmp_path / "soup"), capsys=capsys).startswith("error: ")
    assert "exists already" in leaves("soup", *runs, "--to", str(tmp_path / "soup"), capsys=capsys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a"], "one run has no average"),
        (["a", "./a"], "runs: a is named twice, and"),
        (["a", "--greedy", "--with-start", "0.5"], "--greedy selects among runs"),
        (["a", "b"], "a is not a run folder"),
        (["loop", "b"], "loop is not a run folder"),
        (["a", "b", "--with-start", "1.5"], "not a number from 0 to 1"),
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
    assert message in leaves("soup", *arguments, "--to", "soup", capsys=capsys)
    assert not Path("soup").exists()

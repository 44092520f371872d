"""The command `sts-lightning heads`."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.cli.main import main
from tests.cli.helpers import leaves
from tests.workflows.test_heads import FROZEN


@pytest.mark.slow  # trains
def test_writes_a_run_for_each_head_and_prints_their_scores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["heads", *FROZEN, "loss.k=1,3", "--to", str(tmp_path / "grid")]
    main(given)
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("cosine", "k-1", "k-3", "dev"))
    main(["verify", str(tmp_path / "grid" / "k-3")])
    assert "exists already" in leaves(*given, capsys=capsys)


def test_rejects_an_unknown_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "smoth_k2" in leaves("heads", "loss=smoth_k2", "--to", str(tmp_path / "grid"), capsys=capsys)
    assert not (tmp_path / "grid").exists()

"""`sts-lightning` as a user calls it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.cli.main import main


def test_ceiling_of_the_test_sets(data_root: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["ceiling", "--data-root", data_root])
    printed = capsys.readouterr().out
    assert "average" in printed
    assert "86.84" in printed


def test_without_test_sets(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no STS data here"):
        main(["ceiling", "--data-root", str(tmp_path)])

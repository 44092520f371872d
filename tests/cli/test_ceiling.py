"""`sts-lightning` as a user calls it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.cli.main import main

pytestmark = pytest.mark.slow  # each reads all test sets


def test_ceiling_of_the_test_sets(data_root: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["ceiling", "--data-root", data_root])
    printed = capsys.readouterr().out
    assert "average" in printed
    assert "86.84" in printed


def test_ceiling_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.tsv"
    file.write_text("rating\n" + "".join(f"{number}\n" for number in range(1000)))
    main(["ceiling", str(file), "--score", "rating"])
    printed = capsys.readouterr().out
    assert "86.60" in printed
    assert "87.50" in printed
    file.write_text("rating\n1\ntwo\n")
    with pytest.raises(SystemExit, match=r"mine.tsv, line 3: the score 'two' is not a number"):
        main(["ceiling", str(file), "--score", "rating"])
    file.write_text("rating\n1\n1\n")
    with pytest.raises(SystemExit, match="all gold scores are equal"):
        main(["ceiling", str(file), "--score", "rating"])
    with pytest.raises(SystemExit, match="no STS data here"):
        main(["ceiling", "--data-root", str(tmp_path)])

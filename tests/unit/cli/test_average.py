"""`sts-lightning average`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import leaves


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
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

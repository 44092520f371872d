"""`sts-lightning data`, against a local hub."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.cli.main import main
from tests.support.hub_server import Hub
from tests.support.published_files import SIMCSE


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["get", "wiki"], "wiki1m_for_simcse.txt"),
        (["get", "wikis"], "unknown data 'wikis'"),
    ],
)
def test_mistakes_end_with_one_message(
    arguments: list[str], message: str, hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.add(SIMCSE, {})
    with pytest.raises(SystemExit) as caught:
        main(["data", *arguments, "--root", str(tmp_path / "data")])
    assert str(caught.value.code).startswith("error: ")
    assert message in str(caught.value.code)

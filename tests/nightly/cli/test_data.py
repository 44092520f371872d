"""`sts-lightning data`, against a local hub."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT
from tests.support.hub_server import Hub
from tests.support.published_files import SIMCSE, sts_files, tar

PINNED = "e145e8bb659b2aa2669f32ef79cb4cdef6c58fef"


def call(arguments: list[str], **options: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sts_lightning.cli.main", "data", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)  # type: ignore[call-overload, no-any-return]


def test_from_nothing_to_the_seven_tasks(hub: Hub, tmp_path: Path) -> None:
    """As a user does it, in processes of their own; the commit is that of the project's table."""
    hub.add(SIMCSE, {"senteval.tar": tar(sts_files())}, commit=PINNED)
    root = str(tmp_path / "data")
    missing = call(["--root", root], cwd=ROOT)
    assert missing.returncode == 0, missing.stderr
    assert f"sts-lightning data get sts --root {root}" in missing.stdout
    fetched = call(["get", "sts", "--root", root], cwd=tmp_path)
    assert fetched.returncode == 0, fetched.stderr
    assert f"{SIMCSE}: senteval.tar at {PINNED[:8]}" in fetched.stdout
    assert f"/datasets/{SIMCSE}/resolve/{PINNED}/senteval.tar" in [request.path for request in hub.requests]
    listed = call(["--root", root], cwd=tmp_path)
    assert "complete" in listed.stdout
    hub.requests.clear()
    again = call(["get", "--root", root, "sts"], cwd=tmp_path)
    assert again.returncode == 0
    assert hub.requests == []

"""The roads of `make roads` stay short."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.conftest import ROOT

LIMITS = {"command": 72, "batch": 11, "load": 8, "load_run": 12, "encode": 9, "demo": 119}
"""Files of each road, and modules that the demo loads."""


def test_no_road_is_longer_than_its_limit() -> None:
    printed = subprocess.run(
        [sys.executable, "tools/roads.py"],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = {name: int(count) for name, count in re.findall(r"^(\w+): (\d+) ", printed, re.MULTILINE)}
    assert found.keys() == LIMITS.keys()
    assert {name: count for name, count in found.items() if count > LIMITS[name]} == {}, printed

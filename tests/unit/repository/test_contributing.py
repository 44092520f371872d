"""The roads of CONTRIBUTING.md are where it says."""

from __future__ import annotations

import re

from tests.conftest import ROOT

STEP = re.compile(r"^\|[^|]+\| `(\w+)` \| `(src/[\w/]+\.py):(\d+)` \|$", re.MULTILINE)


def test_functions_of_the_roads_are_on_their_lines() -> None:
    """`python tools/roads.py --contributing` writes the lines."""
    steps = STEP.findall((ROOT / "CONTRIBUTING.md").read_text())
    assert len(steps) == 15
    for name, file, line in steps:
        text = (ROOT / file).read_text().splitlines()[int(line) - 1]
        assert re.match(rf"\s*(def|class) {name}\b", text), f"{file}:{line} is not {name}: {text}"

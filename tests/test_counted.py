"""Numbers with their noun."""

from __future__ import annotations

from sts_lightning.counted import counted


def test_singular_and_plural() -> None:
    assert [counted(n, "run") for n in (0, 1, 2, 1200)] == ["0 runs", "1 run", "2 runs", "1,200 runs"]

"""How long the threads of a product wait for one another on a CPU."""

from __future__ import annotations

import os

SPINS = "GOMP_SPINCOUNT"
"""Variable of GNU's OpenMP, which torch computes with on Linux: turns of the loop in which a thread waits."""

TURNS = 10_000
"""Turns before a waiting thread sleeps: a fraction of a millisecond, more than the gap between products."""


def shorten_waits() -> None:
    """Let a thread that waits for the others sleep soon, so that it does not keep them from the processor.

    By default it waits for 300,000 turns. Where other programs compute too, the thread it waits for is often
    not running, and every product takes until the system next deals out the processor: two runs at once on
    two cores are four to seven times slower. The variable is read when torch
    is loaded, so this must come before. What the user has set is kept.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault(SPINS, str(TURNS))

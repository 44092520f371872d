"""Numbers with their noun, for messages."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return a number and its noun, as in ``1 run`` and ``1,200 runs``.

    Args:
        count: Number.
        noun: Noun in the singular, whose plural ends with -s.
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"

"""Overrides of joint data."""

from __future__ import annotations

from typing import Any


def part(name: str, choice: str, **settings: Any) -> list[str]:
    """Overrides that choose a part; ++, since what all data share is a new setting of a part."""
    place = f"data.parts.{name}"
    return [f"+data@{place}={choice}", *(f"++{place}.{key}={value}" for key, value in settings.items())]


def losses(**by_part: str) -> list[str]:
    """Overrides that choose a loss for each part."""
    return ["loss=joint", *(f"+loss@loss.parts.{name}={choice}" for name, choice in by_part.items())]

"""Checks that numbers are within their range."""

from __future__ import annotations


def check_range(name: str, value: int, least: int, most: int) -> None:
    """Check that an argument lies within a range.

    Args:
        name: Name of the argument, with which the message begins.
        value: Its value.
        least: Smallest allowed value.
        most: Largest allowed value.

    Raises:
        ValueError: The value is out of range.
    """
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}.")
    if value > most:
        raise ValueError(f"{name} must be at most {most:,}, got {value}.")

"""Sentences that several tests embed."""

from __future__ import annotations

TEXTS = [
    "A dog runs",
    "Someone plays a guitar in the park",
    "x",
    "Two men are sitting",
    "Go on",
    "An owl",
    "No",
    "It",
]
"""Eight, of one to seven words."""

SENTENCES = ["a b", "a much longer sentence than that", "short", "of middling length", "x", "short"]
"""Six, one of them twice."""

LOWER_CASE = ["a dog runs.", "someone plays a guitar in the park", "x", "two men are sitting"]
"""Four in lower case, for vocabularies without capital letters."""

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

QUERIES = [
    "how long does a parcel to Norway take?",
    "Which trains run on Sundays",
    "A man is playing a guitar.",
    'Who says "no", and why?',
    "price of 2.5 kg of apples",
]
DOCUMENTS = [
    "Parcels within Europe arrive after three to five working days; on islands it may take a week.",
    "On Sundays and holidays the S3 leaves every 30 minutes, the S7 once an hour.",
    "Someone plays an old guitar in the park while two men are sitting on a bench.",
    "The boy said that he wasn't there, and nobody asked again.",
    "Apples: 3.20 a kilogram, from 5 kg on 2.90.",
]
"""Five queries, and five texts that answer them."""

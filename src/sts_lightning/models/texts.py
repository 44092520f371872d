"""Sentences as a user gives them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set


def as_texts(sentences: Iterable[str]) -> list[str]:
    """Return sentences as a list.

    Raises:
        TypeError: They are one string, or something whose elements are not texts in an order.
    """
    if isinstance(sentences, str | bytes):
        raise TypeError("encode takes a list of sentences, not one string.")
    if isinstance(sentences, Mapping | Set) or hasattr(sentences, "columns"):
        raise TypeError(f"encode takes a list of sentences, not a {type(sentences).__name__}.")
    try:
        texts = list(sentences)
    except TypeError as error:
        raise TypeError(f"encode takes a list of sentences, not a {type(sentences).__name__}.") from error
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                f"encode takes a list of sentences, and element {number} is {text!r}, not a string."
            )
    return texts

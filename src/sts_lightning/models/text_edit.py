"""Edits of test sentences in the evaluation code of the prompt papers."""

from __future__ import annotations

from sts_lightning.choices import TextEdit


def edit(sentence: str, how: TextEdit) -> str:
    """Edit a sentence as PromptEOL's evaluation code does before it fills the template.

    A sentence that ends in none of ``. ? " '`` gets a period, then double quotes become single ones, then a
    final question mark becomes a period. The papers do not mention it, and their code does not do it in
    training.
    """
    if how == "none" or not sentence:
        return sentence
    if sentence[-1] not in ".?\"'":
        sentence += "."
    sentence = sentence.replace('"', "'")
    return f"{sentence[:-1]}." if sentence.endswith("?") else sentence

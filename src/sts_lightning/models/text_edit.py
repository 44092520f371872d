"""Edits of dev and test sentences in the evaluation code of the prompt papers."""

from __future__ import annotations

from sts_lightning.choices import TextEdit


def edit(sentence: str, how: TextEdit) -> str:
    """Edit a sentence as the evaluation code of the prompt papers does before it fills the template.

    A sentence that ends in none of ``. ? " '`` gets a period. That is all in PromptBERT's code
    (https://github.com/kongds/Prompt-BERT/blob/690ba6e/evaluation.py#L201) and CoT-BERT's; PromptEOL's then
    turns double quotes into single ones and a final question mark into a period. The papers do not mention
    it, and their code does not do it in training.
    """
    if how == "none" or not sentence:
        return sentence
    if sentence[-1] not in ".?\"'":
        sentence += "."
    if how == "prompt_bert":
        return sentence
    sentence = sentence.replace('"', "'")
    return f"{sentence[:-1]}." if sentence.endswith("?") else sentence

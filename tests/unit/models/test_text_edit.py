from __future__ import annotations

import pytest

from sts_lightning.models.text.template import edit
from sts_lightning.testing.tiny_bert import tiny_bert


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("A man walks", "A man walks."),
        ("A man walks.", "A man walks."),
        ("Who walks?", "Who walks."),
        ('He said "go"', "He said 'go'"),
        ("It is his'", "It is his'"),
        ("Go!", "Go!."),
        ("", ""),
    ],
)
def test_the_papers_edits(sentence: str, expected: str) -> None:
    assert edit(sentence, "official") == expected
    assert edit(sentence, "none") == sentence


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("A man walks", "A man walks."),
        ("Who walks?", "Who walks?"),
        ('He said "go"', 'He said "go"'),
        ('The "go" sign', 'The "go" sign.'),
        ("Go!", "Go!."),
        ("", ""),
    ],
)
def test_the_edit_of_prompt_bert_is_a_period(sentence: str, expected: str) -> None:
    assert edit(sentence, "prompt_bert") == expected


def test_evaluation_edits_and_training_does_not() -> None:
    encoder = tiny_bert(dropout=0.0).eval()
    plain, edited = encoder.encode(["Who walks", "Who walks."])
    encoder.set_evaluation("official", encoder.tokenizer.lengths.eval)
    assert encoder.encode(["Who walks"])[0] == pytest.approx(edited, abs=1e-6)
    assert abs(plain - edited).max() > 1e-3
    rows = encoder.prepare(100, training=False)([["Who walks"]], [None])
    assert rows.chunks[0]["input_ids"].tolist() == [encoder.tokenizer(["Who walks."])[0]]
    rows = encoder.prepare(100, training=True)([["Who walks"]], [None])
    assert rows.chunks[0]["input_ids"].tolist() == [encoder.tokenizer(["Who walks"])[0]]

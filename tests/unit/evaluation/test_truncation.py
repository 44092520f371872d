"""Shares of texts that are truncated and of tokens that are unknown, counted by hand."""

from __future__ import annotations

import pytest

from sts_lightning.data.table import Table
from sts_lightning.evaluation import unseen_text as truncation
from sts_lightning.evaluation.unseen_text import report_truncation
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import character_tokenizer, tiny_bert

TABLE = Table(
    {"sentence1": ["a", "a a a", "a a a a a a"], "sentence2": ["a", "b", "a a a a a a a"], "label": [0.0] * 3}
)
THAI = "ครู แผนที่ จักรยาน"


def test_distinct_texts_with_too_many_tokens(encoder: SentenceEncoder) -> None:
    texts = ["a", "a a a", "a a a a a a", "b", "a a a a a a a"]
    one = len(encoder.tokenizer(["a"])[0]) - 2  # without the special tokens
    counted = [encoder.tokenizer.count_unseen(texts, length) for length in (2 + 3 * one, 2 + 6 * one, None)]
    assert [unseen.truncated for unseen in counted] == [2, 1, 0]
    assert {unseen.tokens for unseen in counted} == {18 * one}
    assert encoder.tokenizer.count_unseen([], 3) == (0, 0, 0)


@pytest.mark.parametrize("template", [None, "so: {sentence}"])
def test_unknown_tokens(template: str | None) -> None:
    """A word with a letter that no piece has is one unknown token."""
    tokenizer = tiny_bert(template=template).tokenizer
    assert tokenizer.count_unseen(["ab c", THAI, "ab \U0001f600"], 100) == (0, 4, 9)
    tokenizer.tokenizer.unk_token = "[SEP]"  # which the tokenizer adds at the end, as GPT-2's family may
    assert tokenizer.count_unseen(["ab c"], 100) == (0, 0, 3)


def test_a_tokenizer_without_an_unknown_token() -> None:
    fast = character_tokenizer()
    fast.unk_token = None
    encoder = tiny_bert()
    encoder.tokenizer.tokenizer = fast
    assert encoder.tokenizer.count_unseen(["ab c", THAI], 100).unknown == 0


def test_some_rows_of_a_large_table_are_looked_at(
    encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"a {number}" for number in range(10)]
    table = Table({"sentence1": texts, "sentence2": texts[::-1], "label": [0.0] * 10})
    counted: list[str] = []
    count = type(encoder.tokenizer).count_unseen
    monkeypatch.setattr(
        type(encoder.tokenizer),
        "count_unseen",
        lambda self, texts, length: counted.extend(texts) or count(self, texts, length),
    )
    monkeypatch.setattr(truncation, "SAMPLED_ROWS", 4)  # rows 0, 3, 6, 9
    report_truncation(encoder, [table])
    assert sorted(counted) == ["a 0", "a 3", "a 6", "a 9"]


def test_the_line(encoder: SentenceEncoder, caplog: pytest.LogCaptureFixture) -> None:
    encoder.set_evaluation(max_length=3)
    with caplog.at_level("INFO"):
        report_truncation(encoder, [TABLE], TABLE)
    assert f"0 % of the training texts (after {encoder.tokenizer.lengths.train} tokens), " in caplog.text
    assert "60 % of the dev and test texts (after 3 tokens); unknown tokens: 0 %, 0 %" in caplog.text
    assert "WARNING" not in caplog.text
    encoder.encode(["a a a"])  # which has been said
    assert "WARNING" not in caplog.text


def test_many_unknown_tokens_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    table = Table({"sentence1": [THAI, "a b"], "sentence2": ["c", THAI], "label": [0.0] * 2})
    with caplog.at_level("INFO"):
        report_truncation(tiny_bert(), [TABLE], table)
    assert "unknown tokens: 50 %, 0 %" in caplog.text
    assert "WARNING: 50 % of the tokens of the training texts are unknown" in caplog.text
    assert caplog.text.count("WARNING:") == 1


def test_the_line_of_a_sample(
    encoder: SentenceEncoder, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(truncation, "SAMPLED_ROWS", 2)
    with caplog.at_level("INFO"):
        report_truncation(encoder, [TABLE])
    assert " % of a sample of the dev and test texts" in caplog.text

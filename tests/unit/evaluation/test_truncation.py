"""Shares of texts that are truncated, counted by hand."""

from __future__ import annotations

import pytest

from sts_lightning.data.tables import make_table
from sts_lightning.evaluation import score as truncation
from sts_lightning.evaluation.score import report_truncation, truncated_share
from sts_lightning.models.encoder import SentenceEncoder

TABLE = make_table(
    {"sentence1": ["a", "a a a", "a a a a a a"], "sentence2": ["a", "b", "a a a a a a a"], "label": [0.0] * 3}
)


def test_distinct_texts_with_too_many_tokens(encoder: SentenceEncoder) -> None:
    one = len(encoder.tokenizer(["a"])[0]) - 2  # without the special tokens
    assert truncated_share(encoder, [TABLE], 2 + 3 * one) == pytest.approx(2 / 5)
    assert truncated_share(encoder, [TABLE, TABLE], 2 + 6 * one) == pytest.approx(1 / 5)
    assert truncated_share(encoder, [TABLE], None) == truncated_share(encoder, [], 3) == 0


def test_some_rows_of_a_large_table_are_looked_at(
    encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"a {number}" for number in range(10)]
    table = make_table({"sentence1": texts, "sentence2": texts[::-1], "label": [0.0] * 10})
    counted: list[str] = []
    monkeypatch.setattr(
        type(encoder.tokenizer), "count_truncated", lambda _, texts, __: counted.extend(texts) or 0
    )
    monkeypatch.setattr(truncation, "SAMPLED_ROWS", 4)  # rows 0, 3, 6, 9
    truncated_share(encoder, [table], 3)
    assert sorted(counted) == ["a 0", "a 3", "a 6", "a 9"]


def test_the_line(encoder: SentenceEncoder, caplog: pytest.LogCaptureFixture) -> None:
    encoder.tokenizer.set_evaluation_length(3)
    with caplog.at_level("INFO"):
        report_truncation(encoder, [TABLE], TABLE)
    assert f"0 % of the training texts (after {encoder.tokenizer.max_length} tokens), " in caplog.text
    assert "60 % of the dev and test texts (after 3 tokens)" in caplog.text


def test_the_line_of_a_sample(
    encoder: SentenceEncoder, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(truncation, "SAMPLED_ROWS", 2)
    with caplog.at_level("INFO"):
        report_truncation(encoder, [TABLE])
    assert " % of a sample of the dev and test texts" in caplog.text

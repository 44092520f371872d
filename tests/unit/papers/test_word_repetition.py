from __future__ import annotations

from collections import Counter

import torch

from sts_lightning.papers.word_repetition import PaperCodeWordRepetition, WordRepetition
from sts_lightning.testing.tiny_bert import tiny_bert

SPECIAL = [1, *[0] * 20, 1]
IDS = [101, *range(20), 102]


def test_repeats_in_place_and_never_special_tokens() -> None:
    for seed in range(50):
        longer = WordRepetition(0.5, seed)(IDS, SPECIAL)
        counts = Counter(longer)
        assert counts[101] == counts[102] == 1
        assert set(counts.values()) <= {1, 2}
        assert list(dict.fromkeys(longer)) == IDS
        assert all(longer[i] != longer[i + 2] for i in range(len(longer) - 2))


def test_number_of_repetitions_is_uniform_up_to_the_limit() -> None:
    added = Counter(len(WordRepetition(0.32, seed)(IDS, SPECIAL)) - len(IDS) for seed in range(2100))
    assert set(added) == set(range(7))  # 0, ..., int(0.32 * 20)
    assert all(220 < count < 380 for count in added.values())


def test_the_papers_codes_draws() -> None:
    added = Counter(len(PaperCodeWordRepetition(0.32, seed)(IDS, SPECIAL)) - 22 for seed in range(500))
    assert set(added) == set(range(7))  # randrange(int(0.32 * 22))
    assert PaperCodeWordRepetition(0.32, 0)([101, 5, 102], [1, 0, 1]) == [101, 5, 102]
    long = Counter(len(PaperCodeWordRepetition(0.9, seed)(IDS * 3, SPECIAL * 3)) - 66 for seed in range(500))
    assert max(long) == 9


def test_short_sentences_may_repeat_two_words() -> None:
    added = {len(WordRepetition(0.1, seed)([101, 5, 6, 7, 102], [1, 0, 0, 0, 1])) for seed in range(60)}
    assert added == {5, 6, 7}
    assert {len(WordRepetition(1.0, seed)([101, 5, 102], [1, 0, 1])) for seed in range(40)} == {3, 4}


def test_depends_on_seed_and_sentence_alone() -> None:
    assert WordRepetition(0.5, 3)(IDS, SPECIAL) == WordRepetition(0.5, 3)(IDS, SPECIAL)
    assert len({tuple(WordRepetition(0.5, seed)(IDS, SPECIAL)) for seed in range(20)}) > 10


def test_a_row_never_exceeds_the_positions_of_the_model() -> None:
    """Words are repeated after truncation, which here leaves as many tokens as there are positions."""
    encoder = tiny_bert(max_length=512).train()
    tokenizer = encoder.tokenizer.tokenizer
    texts, repeat = ["a dog runs " * 70, "a dog " * 100], WordRepetition(1.0, seed=1)
    rows = encoder.prepare(10_000, training=True)([texts, texts], [None, repeat])
    assert rows.chunks[0]["input_ids"].shape[1] == 512
    first, second, *_ = (row[row != tokenizer.pad_token_id] for row in rows.chunks[0]["input_ids"][[0, 1]])
    for row in (first, second):
        assert (len(row), row[0], row[-1]) == (512, tokenizer.cls_token_id, tokenizer.sep_token_id)
    assert torch.isfinite(encoder(rows)).all()

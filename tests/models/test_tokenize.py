from __future__ import annotations

import pytest
import torch

from sts_lightning.errors import ConfigError
from sts_lightning.models.tiny import character_tokenizer
from sts_lightning.models.tokenize import SentenceTokenizer, chunk


def decode(tokenizer: SentenceTokenizer, ids: list[int]) -> str:
    return tokenizer.tokenizer.decode(ids)


def test_without_template_length_counts_special_tokens() -> None:
    tokenizer = SentenceTokenizer(character_tokenizer(), max_length=6)
    (ids,) = tokenizer(["abcdefgh"])
    assert decode(tokenizer, ids) == "[CLS] abcd [SEP]"


def test_truncation_cuts_the_sentence_and_never_the_template() -> None:
    tokenizer = SentenceTokenizer(character_tokenizer(), max_length=4, template='of "{sentence}" is {mask}.')
    long, short = (decode(tokenizer, ids) for ids in tokenizer(["abcdefgh", "xy"]))
    assert long == '[CLS] of " abcd " is [MASK]. [SEP]'
    assert short == '[CLS] of " xy " is [MASK]. [SEP]'


@pytest.mark.parametrize("template", ["no slot", "{sentence} twice {sentence}"])
def test_a_template_needs_one_slot(template: str) -> None:
    with pytest.raises(ConfigError, match="slot"):
        SentenceTokenizer(character_tokenizer(), 8, template)


def test_a_mask_in_the_template_needs_a_mask_token() -> None:
    tokenizer = character_tokenizer()
    tokenizer.mask_token = None
    with pytest.raises(ConfigError, match="no mask token"):
        SentenceTokenizer(tokenizer, 8, "{sentence} {mask}")


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("budget", [1, 7, 12, 1000])
def test_chunks_hold_every_row_once_within_the_budget(side: str, budget: int) -> None:
    rows = [[row + 1] * length for row, length in enumerate([3, 1, 5, 5, 2, 4, 1])]
    chunks = chunk(rows, budget, pad_id=0, padding_side=side)
    assert chunks.num_tokens == 21
    seen = []
    for part in chunks.chunks:
        ids, mask = part["input_ids"], part["attention_mask"]
        assert len(ids) == 1 or ids.numel() <= budget
        assert mask[:, 0 if side == "right" else -1].all()
        assert torch.equal(ids != 0, mask.bool())
        assert mask.sum(dim=1).max() == ids.shape[1]  # padded to its own longest row
        seen += [[token for token in row if token] for row in ids.tolist()]
    assert [seen[position] for position in chunks.restore.tolist()] == rows


def test_sorting_saves_padding() -> None:
    rows = [[1] * length for length in [2, 30, 3, 28, 2, 29]]
    padded = sum(part["input_ids"].numel() for part in chunk(rows, 100, 0, "right").chunks)
    assert padded == 3 * 30 + 3 * 3

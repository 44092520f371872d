"""Templates and their slots."""

from __future__ import annotations

import pytest

from sts_lightning.models.text.template import fill_mask
from sts_lightning.testing.tiny_bert import character_tokenizer


@pytest.mark.parametrize("template", ["a", "{sentence}{sentence}"])
def test_a_template_has_one_slot(template: str) -> None:
    with pytest.raises(ValueError, match=r"^template must contain"):
        fill_mask(character_tokenizer(), "template", template)


def test_the_mask_is_that_of_the_tokenizer() -> None:
    tokenizer = character_tokenizer()
    assert fill_mask(tokenizer, "template", "{sentence} {mask}") == f"{{sentence}} {tokenizer.mask_token}"
    tokenizer.mask_token = None
    with pytest.raises(ValueError, match="has no mask token"):
        fill_mask(tokenizer, "template", "{sentence} {mask}")


def test_a_mask_token_that_the_tokenizer_does_not_find() -> None:
    tokenizer = character_tokenizer()
    tokenizer._special_tokens_map["mask_token"] = "mask"  # a word of four pieces
    with pytest.raises(ValueError, match="does not read 'mask' as its mask token"):
        fill_mask(tokenizer, "template", "{sentence} {mask}")

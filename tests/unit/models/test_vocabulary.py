"""A tokenizer that does not belong to the model is rejected when it is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import AddedToken

from sts_lightning.core.errors import CheckpointError, UserError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import character_tokenizer
from tests.support.families import tiny, write


@pytest.mark.parametrize(
    "model_type", ["bert", "roberta", "llama", "gpt2", "t5", "mpnet", "modernbert", "qwen2"]
)
def test_a_folder_without_tokenizer_files(model_type: str, tmp_path: Path) -> None:
    tiny(model_type).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="tokenizer files"):
        SentenceEncoder.from_pretrained(str(tmp_path))


def test_a_folder_with_the_settings_of_a_tokenizer_only(tmp_path: Path) -> None:
    write(tiny("bert"), tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(UserError, match="tokenizer files"):
        SentenceEncoder.from_pretrained(str(tmp_path))


def test_the_tokenizer_of_a_larger_model(tmp_path: Path) -> None:
    size = len(character_tokenizer())
    folder = write(tiny("bert", vocab_size=size - 1), tmp_path)
    with pytest.raises(CheckpointError, match=rf"has id {size - 1}, but BertModel has {size - 1} embeddings"):
        SentenceEncoder.from_pretrained(folder)


def test_a_pad_token_without_an_embedding(tmp_path: Path) -> None:
    """As in folders to which someone has added a pad token."""
    tokenizer = character_tokenizer()
    tokenizer.add_special_tokens({"pad_token": "<pad>"})
    with pytest.raises(CheckpointError, match="'<pad>' has id"):
        SentenceEncoder.from_pretrained(write(tiny("bert"), tmp_path, tokenizer))


def test_an_added_token_that_text_does_not_contain_may_lack_an_embedding(tmp_path: Path) -> None:
    tokenizer = character_tokenizer()
    tokenizer.add_tokens([AddedToken("<image_soft_token>", special=True)])
    encoder = SentenceEncoder.from_pretrained(write(tiny("bert"), tmp_path, tokenizer)).eval()
    assert encoder.encode(["a dog"]).shape == (1, 32)

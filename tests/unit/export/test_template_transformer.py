"""The module that exported folders bring along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sts_lightning.export.template_transformer import TemplateTransformer
from sts_lightning.models.text.template import edit, truncate_texts
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.testing.tiny_decoders import tiny_llama


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    saved: Path = tmp_path_factory.mktemp("model")
    encoder = tiny_bert()
    encoder.backbone.save_pretrained(saved)
    encoder.tokenizer.tokenizer.save_pretrained(saved)
    return str(saved)


def texts(module: TemplateTransformer, sentences: list[str], **settings: Any) -> list[str]:
    """What the model reads."""
    assert module.tokenizer is not None
    rows = module.preprocess(sentences, **settings)["input_ids"].tolist()
    return [module.tokenizer.decode(row, skip_special_tokens=False).replace(" [PAD]", "") for row in rows]


def test_the_template_is_never_cut(folder: str) -> None:
    module = TemplateTransformer(folder, template='it : "{sentence}" .', sentence_tokens=4)
    assert texts(module, ["abcdefgh", "xy"]) == ['[CLS] it : " abcd ". [SEP]', '[CLS] it : " xy ". [SEP]']
    assert texts(module, ["cd"], prompt="ab ") == ['[CLS] it : " ab cd ". [SEP]']


@pytest.mark.parametrize(
    "sentence", ["A man walks", "Who walks?", 'He said "go"', "It is his'", "Go!", "", "x."]
)
def test_its_edits_are_those_of_the_project(sentence: str, folder: str) -> None:
    """The file must not import the project, so the function is written twice."""
    assert TemplateTransformer(folder, edit=True)._edited(sentence) == edit(sentence, "official")
    assert TemplateTransformer(folder)._edited(sentence) == sentence


def test_only_the_last_mask_is_visible_to_the_pooling(folder: str) -> None:
    module = TemplateTransformer(folder, template="[MASK] {sentence} [MASK] .", read_mask=True)
    features = module.preprocess(["ab", "abcd"])
    visible = module(dict(features))["attention_mask"]
    assert visible.sum(dim=1).tolist() == [1, 1]
    # [CLS] [MASK] a b [MASK] . [SEP], and two letters more.
    assert visible.argmax(dim=1).tolist() == [4, 6]


@pytest.mark.parametrize("tokens", range(1, 12))
def test_it_cuts_where_the_project_does(tokens: int, tmp_path: Path) -> None:
    encoder = tiny_llama()
    encoder.backbone.save_pretrained(tmp_path)
    encoder.tokenizer.tokenizer.save_pretrained(tmp_path)
    module = TemplateTransformer(str(tmp_path), template="it : {sentence} .", sentence_tokens=tokens)
    for text in ("ab\U0001f600\U0001f600 c", "\u00e9\u00e8a", "abc"):  # characters of four and two bytes
        assert [module._truncated(text)] == truncate_texts(encoder.tokenizer.tokenizer, [text], tokens)

"""Exports with the template in the tokenizer."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import sts_lightning
from sts_lightning.core.errors import ConfigError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.encoding import EncodingConfig
from sts_lightning.models.text.tokenize import SentenceTokenizer
from sts_lightning.models.text.tokenizer_files import save_with_template
from sts_lightning.testing.tiny_bert import character_tokenizer, tiny_bert
from sts_lightning.testing.tiny_decoders import byte_tokenizer
from tests.support.exports import TEXTS, write_export

TEMPLATE = 'it : "{sentence}" is'


def rows(tokenizer: PreTrainedTokenizerFast, max_length: int, template: str) -> SentenceTokenizer:
    return SentenceTokenizer(tokenizer, EncodingConfig(max_length=max_length, template=template))


def joining() -> PreTrainedTokenizerFast:
    """A byte-level tokenizer, as of GPT-2, in which a period and a quotation mark are one token."""
    tokenizer = byte_tokenizer("<s>")
    backend = tokenizer.backend_tokenizer
    vocabulary = backend.get_vocab(with_added_tokens=False)
    backend.model = models.BPE({**vocabulary, '."': len(vocabulary)}, [(".", '"')])
    return tokenizer


@pytest.mark.parametrize("tokenizer", [character_tokenizer(), byte_tokenizer("<s>")])
@pytest.mark.parametrize("template", [TEMPLATE, "of {sentence}", "{sentence} ."])
def test_the_tokenizer_adds_the_tokens_of_the_template(
    template: str, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    bare = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    save_with_template(rows(tokenizer, 512, template), tmp_path)
    written = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    written.no_padding()
    for text in TEXTS:
        expected = bare.encode(template.replace("{sentence}", text)).ids
        assert written.encode(text).ids == expected
        assert AutoTokenizer.from_pretrained(tmp_path)(text)["input_ids"] == expected


@pytest.mark.parametrize("length", [3, 4, 20, None])
def test_the_sentence_is_cut_and_the_template_stays(length: int | None, tmp_path: Path) -> None:
    tokenizer = rows(character_tokenizer(), 3, TEMPLATE)
    tokenizer.lengths = tokenizer.lengths.with_evaluation(length)
    save_with_template(tokenizer, tmp_path)
    written = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    long = " ".join("abcdefgh" * 100)
    kept = 800 if length is None else length
    first, second = written.encode_batch([long, "ab"])
    assert first.tokens == ["[CLS]", "i", "##t", ":", '"', *long.split()[:kept], '"', "i", "##s", "[SEP]"]
    assert sum(second.attention_mask) == 11  # padded to the first row
    assert len(second.ids) == len(first.ids)


def test_a_tokenizer_that_joins_sentence_and_template(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"changes the tokens of a sentence beside it, such as '\.\.\.'"):
        save_with_template(rows(joining(), 128, TEMPLATE), tmp_path)
    save_with_template(rows(joining(), 128, "it : {sentence} is"), tmp_path)  # as a space does


def written(encoder: SentenceEncoder, folder: Path) -> SentenceTransformer:
    """What anyone loads, who trusts no code."""
    write_export(encoder, folder)
    assert not list(folder.glob("*.py"))
    return SentenceTransformer(str(folder), device="cpu")


@pytest.mark.parametrize("normalize", [False, True])
def test_vectors_of_a_folder_without_code(normalize: bool, tmp_path: Path) -> None:
    encoder = tiny_bert(template=TEMPLATE, max_length=9, normalize=normalize)
    model = written(encoder, tmp_path / "out")
    np.testing.assert_allclose(model.encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)
    settings = json.loads((tmp_path / "out" / "config_sentence_transformers.json").read_text())
    assert settings["similarity_fn_name"] == "cosine"
    assert (len(model) == 3) == normalize  # Transformer, Pooling, Normalize


def test_a_prefix_that_joins_the_sentence_is_a_prompt(tmp_path: Path) -> None:
    encoder = tiny_bert(template="say{sentence}", max_length=9)
    ours, model = encoder.encode(TEXTS), written(encoder, tmp_path / "out")
    for encode in (model.encode, model.encode_query, model.encode_document):
        np.testing.assert_allclose(encode(TEXTS), ours, atol=1e-6)
    np.testing.assert_allclose(sts_lightning.load(tmp_path / "out").encode(TEXTS), ours, atol=1e-6)


@pytest.mark.parametrize(
    ("template", "edit", "pooling", "reason"),
    [
        ("say{sentence}.", "none", "mean", "changes the tokens of a sentence"),
        (TEMPLATE, "official", "mean", "text_edit=official changes sentences"),
        ("{sentence} is {mask}", "none", "mask_token", "no pooling of a mask token"),
    ],
)
def test_what_needs_code_is_said(
    template: str, edit: str, pooling: str, reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = tiny_bert(template=template, pooling=pooling, text_edit=edit)
    write_export(encoder, tmp_path / "out")
    assert (tmp_path / "out" / "template_transformer.py").is_file()
    assert reason in caplog.text


def test_the_folder_is_read_back_once_with_its_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = tiny_bert(template=TEMPLATE, max_length=9)
    expected, vectors = encoder.tokenizer(TEXTS), encoder.encode(TEXTS)
    written(encoder, tmp_path / "out")
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    loaded = sts_lightning.load(tmp_path / "out")
    assert loaded.tokenizer.template == TEMPLATE
    assert loaded.tokenizer(TEXTS) == expected
    np.testing.assert_allclose(loaded.encode(TEXTS), vectors, atol=1e-6)
    alone = SentenceEncoder.from_pretrained(str(tmp_path / "out"), template=TEMPLATE, max_length=9)
    assert alone.tokenizer(TEXTS) == expected
    monkeypatch.undo()
    again = written(loaded, tmp_path / "again")
    np.testing.assert_allclose(again.encode(TEXTS), vectors, atol=1e-6)


def test_a_folder_that_another_library_saved_again(tmp_path: Path) -> None:
    """It has no settings of this project: the tokens that the tokenizer adds are all there is."""
    encoder = tiny_bert(template=TEMPLATE, max_length=9)
    expected, vectors = encoder.tokenizer(TEXTS), encoder.encode(TEXTS)
    written(encoder, tmp_path / "out").save(str(tmp_path / "again"))
    loaded = sts_lightning.load(tmp_path / "again")
    assert (loaded.tokenizer.template, loaded.tokenizer(TEXTS)) == (None, expected)
    np.testing.assert_allclose(loaded.encode(TEXTS), vectors, atol=1e-6)

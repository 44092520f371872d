"""Exports against sentence-transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import sts_lightning
from sts_lightning.core.choices import Role, TextEdit
from sts_lightning.export.sentence_transformers import write_sentence_transformers
from sts_lightning.models.text.template import edit as apply_edit
from sts_lightning.testing.tiny_bert import tiny_bert
from tests.support.exports import write_export


@pytest.mark.parametrize(
    ("template", "edit"),
    [
        (None, "none"),
        (None, "official"),
        ("{sentence}", "none"),
        ("say: {sentence}", "official"),
        ("say: {sentence} .", "none"),
    ],
)
def test_long_sentences_are_cut_where_the_run_cuts_them(
    template: str | None, edit: TextEdit, tmp_path: Path
) -> None:
    encoder = tiny_bert(template=template, max_length=9, text_edit=edit)
    texts = ["a much longer sentence than nine", "short"]
    ours = encoder.encode([apply_edit(text, edit) for text in texts])
    write_export(encoder, tmp_path / "out")
    code = edit != "none"
    assert (tmp_path / "out" / "template_transformer.py").is_file() == code
    model = SentenceTransformer(str(tmp_path / "out"), device="cpu", trust_remote_code=code)
    np.testing.assert_allclose(model.encode(texts), ours, atol=1e-5)
    loaded = sts_lightning.load(tmp_path / "out")
    np.testing.assert_allclose(loaded.encode([apply_edit(text, edit) for text in texts]), ours, atol=1e-5)


@pytest.mark.parametrize("template", ["query: {sentence}", "{sentence}", "other: {sentence}"])
def test_the_templates_of_the_views_are_the_prompts_by_role(template: str, tmp_path: Path) -> None:
    views = ["{sentence}" if template == "{sentence}" else "query: {sentence}", "passage: {sentence}"]
    texts = ["a dog", "", "someone plays a guitar " * 20]

    def encode(text: str) -> np.ndarray:
        return tiny_bert(template=text, weights_seed=1, max_length=50).encode(texts)

    expected = [encode(text) for text in (template, *views)]
    write_export(
        tiny_bert(template=template, view_templates=[*views, "{sentence}"], weights_seed=1, max_length=50),
        tmp_path / "out",
    )
    model = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    found = [encode(texts) for encode in (model.encode, model.encode_query, model.encode_document)]
    for theirs, ours in zip(found, expected, strict=True):
        np.testing.assert_allclose(theirs[:2], ours[:2], atol=1e-5)
    # A row is as long as one with the template of evaluation.
    np.testing.assert_allclose(found[0][2], expected[0][2], atol=1e-5)
    np.testing.assert_allclose(sts_lightning.load(tmp_path / "out").encode(texts), expected[0], atol=1e-5)


@pytest.mark.parametrize("template", [None, "say: {sentence} .", 'of "{sentence}" is {mask}.'])
def test_the_limit_of_the_base_models_tokenizer_cuts_nothing(template: str | None, tmp_path: Path) -> None:
    """The run reads what the model has positions for; elsewhere the tokenizer's own limit would cut."""
    encoder = tiny_bert(template=template, pooling="mask_token" if "mask" in str(template) else "mean").eval()
    encoder.tokenizer.tokenizer.model_max_length = 16
    encoder.set_evaluation(max_length=None)
    texts = ["a much longer sentence than sixteen tokens of one letter each", "short", "a " * 600]
    ours = encoder.encode(texts)
    write_export(encoder, tmp_path / "out")
    model = SentenceTransformer(str(tmp_path / "out"), device="cpu", trust_remote_code=True)
    np.testing.assert_allclose(model.encode(texts), ours, atol=1e-5)
    np.testing.assert_allclose(sts_lightning.load(tmp_path / "out").encode(texts), ours, atol=1e-5)


def test_a_mask_in_a_sentence_is_not_that_of_the_template(tmp_path: Path) -> None:
    encoder = tiny_bert(template="{mask} is {sentence} .", pooling="mask_token", dropout=0.0)
    texts = ["a [MASK] b", "abc", "[MASK]"]
    write_export(encoder, tmp_path / "out")
    model = SentenceTransformer(str(tmp_path / "out"), device="cpu", trust_remote_code=True)
    np.testing.assert_allclose(model.encode(texts), encoder.encode(texts), atol=1e-5)
    np.testing.assert_allclose(
        sts_lightning.load(tmp_path / "out").encode(texts), encoder.encode(texts), atol=1e-5
    )


def test_no_hub_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refused(*args: object) -> None:
        asked.append(args)
        raise OSError("no network")

    encoder = tiny_bert()
    encoder.plain_backbone.config._name_or_path = "someone/model"
    monkeypatch.setattr("socket.getaddrinfo", refused)
    write_sentence_transformers(encoder, tmp_path / "out")
    assert not asked


ROLE_CASES: dict[str, dict[str, Any]] = {
    "both": {"query": "query: ", "document": "passage: "},
    "both and a template": {"query": "query: ", "document": "passage: ", "template": "task: {sentence}"},
    "one": {"query": "query: "},
    "one and a template": {"query": "query: ", "template": "task: {sentence}"},
    "a bare document": {"query": "query: ", "document": "", "template": "task: {sentence}"},
    "the template is a prompt": {"query": "query: ", "document": "p: ", "template": "query: {sentence}"},
}


@pytest.mark.parametrize("edit", ["none", "official"])
@pytest.mark.parametrize("case", list(ROLE_CASES))
def test_prompts_by_role_are_those_of_the_library(case: str, edit: TextEdit, tmp_path: Path) -> None:
    """Also of a text that is cut: rows of all roles are cut at one length."""
    encoder = tiny_bert(**ROLE_CASES[case], max_length=40, text_edit=edit)
    texts = ["a dog", "", "Who?", "someone plays a guitar " * 20]
    roles: list[Role | None] = [None, "query", "document"]
    ours = [encoder.encode(texts, prompt=role) for role in roles]
    assert np.abs(ours[0] - ours[1]).max() > 1e-3 or case == "the template is a prompt"
    write_export(encoder, tmp_path / "out")
    model = SentenceTransformer(str(tmp_path / "out"), device="cpu", trust_remote_code=edit != "none")
    theirs = [encode(texts) for encode in (model.encode, model.encode_query, model.encode_document)]
    loaded = sts_lightning.load(tmp_path / "out")
    for role, expected, found in zip(roles, ours, theirs, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5, err_msg=str(role))
        np.testing.assert_allclose(loaded.encode(texts, prompt=role), expected, atol=1e-5, err_msg=str(role))
    assert loaded.tokenizer.roles == encoder.tokenizer.roles

from __future__ import annotations

import copy
import pickle
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from sts_lightning.core.errors import ConfigError
from sts_lightning.models.encoding import EncodingConfig
from sts_lightning.models.pooling import Pooling
from sts_lightning.models.text.lengths import Lengths
from sts_lightning.models.text.tokenize import SentenceTokenizer
from sts_lightning.testing.tiny_bert import character_tokenizer
from sts_lightning.testing.tiny_decoders import byte_tokenizer, tiny_llama, tiny_mistral


def rows_of(
    max_length: int,
    template: str | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    offset: int = 0,
    positions: int | None = None,
    **settings: Any,
) -> SentenceTokenizer:
    config = EncodingConfig(max_length=max_length, template=template, **settings)
    return SentenceTokenizer(
        tokenizer or character_tokenizer(), config, position_offset=offset, positions=positions
    )


def decode(tokenizer: SentenceTokenizer, ids: list[int]) -> str:
    return tokenizer.tokenizer.decode(ids)


def test_without_template_length_counts_special_tokens() -> None:
    tokenizer = rows_of(6)
    (ids,) = tokenizer(["abcdefgh"])
    assert decode(tokenizer, ids) == "[CLS] abcd [SEP]"


def test_truncation_cuts_the_sentence_and_never_the_template() -> None:
    tokenizer = rows_of(4, 'of "{sentence}" is {mask}.')
    long, short = (decode(tokenizer, ids) for ids in tokenizer(["abcdefgh", "xy"]))
    assert long == '[CLS] of " abcd " is [MASK]. [SEP]'
    assert short == '[CLS] of " xy " is [MASK]. [SEP]'


@pytest.mark.parametrize("template", [None, 'of "{sentence}" is {mask}.', "of {sentence}"])
def test_the_end_is_cut_whatever_side_the_tokenizer_names(template: str | None) -> None:
    usual, other = character_tokenizer(), character_tokenizer()
    other.truncation_side = "left"
    right, left = (rows_of(4, template, tokenizer) for tokenizer in (usual, other))
    assert left(["abcdefgh", "xy"]) == right(["abcdefgh", "xy"])


def test_a_character_of_several_tokens_is_kept_or_left_out() -> None:
    tokenizer = byte_tokenizer("<s>")
    alone = rows_of(90, 'This : "{sentence}" means:"', tokenizer)
    for length in range(4, 12):
        cut = rows_of(length, 'This : "{sentence}" means:"', tokenizer)
        for letters in range(4):
            text = "a" * letters + "\N{GRINNING FACE}" * 9
            kept = max(n for n in range(len(text) + 1) if len(text[:n].encode()) <= length)
            assert cut([text]) == alone([text[:kept]]), (length, letters)


@pytest.mark.parametrize("template", [None, 'of "{sentence}" is {mask}.', "of {sentence}"])
def test_threads_may_share_it(template: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fast tokenizer has its truncation as a state, which is set and then used."""
    fast = character_tokenizer()
    tokenizer = rows_of(6, template, fast)
    set_state = type(fast).set_truncation_and_padding

    def slow(self: Any, *args: Any, **options: Any) -> None:
        set_state(self, *args, **options)
        time.sleep(0.002)

    monkeypatch.setattr(type(fast), "set_truncation_and_padding", slow)
    texts = ["abcdefghij", "xy"]
    expected = tokenizer(texts)
    with ThreadPoolExecutor(2) as threads:
        counts = [threads.submit(tokenizer.count_unseen, texts, 6) for _ in range(10)]
        found = [threads.submit(tokenizer, texts) for _ in range(10)]
        assert all(future.result() == expected for future in found)
        assert len({future.result() for future in counts}) == 1
    assert copy.deepcopy(tokenizer)(texts) == pickle.loads(pickle.dumps(tokenizer))(texts) == expected


def test_a_row_that_grows_in_the_template_is_cut_before_its_end() -> None:
    """A word of byte-level BPE that is one token at the start of a text may be two after a space."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    bpe.train_from_iterator(["it : a a a .", "dog", "dog"] * 9, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=bpe, pad_token="!", eos_token="!")
    tokenizer = rows_of(8, "it : {sentence} .", fast, positions=8 + 3)
    rows = [fast.convert_ids_to_tokens(row) for row in tokenizer(["dog" * 20, "a"])]
    start, end = ["it", "\u0120:"], ["\u0120."]
    assert rows == [[*start, "\u0120", *["dog"] * 7, *end], [*start, "\u0120a", *end]]


@pytest.mark.parametrize("template", ["no slot", "{sentence} twice {sentence}"])
def test_a_template_needs_one_slot(template: str) -> None:
    with pytest.raises(ValueError, match="exactly once"):
        rows_of(8, template)


def test_a_mask_in_the_template_needs_a_mask_token() -> None:
    tokenizer = character_tokenizer()
    tokenizer.mask_token = None
    with pytest.raises(ValueError, match="no mask token"):
        rows_of(8, "{sentence} {mask}", tokenizer)


TEMPLATES = ['of "{sentence}" is {mask}.', 'it : "{sentence}" is {mask}.']


def test_each_view_has_its_template_in_training_alone() -> None:
    tokenizer = rows_of(8, TEMPLATES[0], view_templates=TEMPLATES)
    rows = tokenizer.training_rows([["xy"], ["xy"]], [None, None], 512)
    ordered = rows.chunks[0]["input_ids"][rows.inverse_order].tolist()
    texts = [tokenizer.tokenizer.decode(row).replace(" [PAD]", "") for row in ordered]
    assert texts == ['[CLS] of " xy " is [MASK]. [SEP]', '[CLS] it : " xy " is [MASK]. [SEP]']
    assert decode(tokenizer, tokenizer(["xy"])[0]) == texts[0]
    with pytest.raises(ConfigError, match="2 templates for 3 views"):
        tokenizer.training_rows([["x"]] * 3, [None] * 3, 512)


def test_shift_puts_the_positions_behind_the_slot_where_they_would_be() -> None:
    tokenizer = rows_of(8, TEMPLATES[0], denoise="shift")
    rows = tokenizer.training_rows([["abc", "x", "yyy"]], [None], 512)
    bare = rows.chunks[-1]
    # [CLS] o f " | " i s [M] . [SEP], the sentence of 3 or 1 tokens between the quotes.
    assert bare["position_ids"].tolist() == [
        [0, 1, 2, 3, 7, 8, 9, 10, 11, 12],
        [0, 1, 2, 3, 5, 6, 7, 8, 9, 10],
    ]
    assert bare["attention_mask"].all()
    assert decode(tokenizer, bare["input_ids"][0].tolist()) == '[CLS] of " " is [MASK]. [SEP]'
    assert rows.baseline is not None
    assert rows.baseline.tolist() == [0, 1, 0]


def test_pad_fills_the_slot_with_visible_padding() -> None:
    tokenizer = rows_of(8, TEMPLATES[0], view_templates=TEMPLATES, denoise="pad")
    rows = tokenizer.training_rows([["ab"], ["abc"]], [None, None], 512)
    bare = rows.chunks[-1]
    lengths = bare["attention_mask"].sum(dim=1).tolist()
    assert lengths == [12, 14]
    assert (
        decode(tokenizer, bare["input_ids"][0].tolist()[:12]) == '[CLS] of " [PAD] [PAD] " is [MASK]. [SEP]'
    )
    assert bare["position_ids"][1].tolist() == list(range(14))
    assert rows.baseline is not None
    assert rows.baseline.tolist() == [0, 1]


def test_positions_may_start_later() -> None:
    tokenizer = rows_of(8, TEMPLATES[0], offset=2, denoise="shift")
    bare = tokenizer.training_rows([["abc"]], [None], 512).chunks[-1]
    assert bare["position_ids"][0, :5].tolist() == [2, 3, 4, 5, 9]


def test_augmentation_and_template_exclude_each_other() -> None:
    tokenizer = rows_of(8, TEMPLATES[0])
    with pytest.raises(ValueError, match="change the template"):
        tokenizer.training_rows([["x"]], [lambda ids, special: ids], 512)


def test_augmentation_sees_ids_and_special_tokens() -> None:
    tokenizer = rows_of(8)
    seen = []

    def double(ids: list[int], special: Sequence[int]) -> list[int]:
        seen.append((len(ids), list(special)))
        return [ids[0], *ids[1:-1], *ids[1:-1], ids[-1]]

    rows = tokenizer.training_rows([["abc"], ["abc"]], [None, double], 512)
    assert seen == [(5, [1, 0, 0, 0, 1])]
    assert rows.chunks[0]["attention_mask"].sum(dim=1)[rows.inverse_order].tolist() == [5, 8]


def test_a_row_that_grows_after_truncation_stays_within_the_positions() -> None:
    tokenizer = rows_of(6, positions=7)  # [CLS] a b c d [SEP], and room for one more
    rows = tokenizer.training_rows([["abcdef"]], [lambda ids, _: [ids[0], *ids[1:-1] * 2, ids[-1]]], 512)
    (ids,) = rows.chunks[0]["input_ids"].tolist()
    assert decode(tokenizer, ids) == "[CLS] abcd a [SEP]"
    assert rows_of(6, positions=7).lengths == Lengths(7, 7, 6, 6, added=0, smallest=3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"denoise": "subtract", "template": TEMPLATES[0]}, "denoise must be one of none, shift, pad"),
        ({"denoise": "shift"}, "denoise 'shift' needs a template"),
        ({"view_templates": TEMPLATES}, "view_templates need a template"),
        ({"template": TEMPLATES[0], "view_templates": ["no slot"]}, "view_templates must contain"),
    ],
)
def test_prompt_settings_that_do_not_fit(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rows_of(8, **settings)


@pytest.mark.parametrize("pooling", ["mean", "last_token", "cls", "first_last_mean"])
def test_an_empty_sentence_without_special_tokens_is_the_start_token(pooling: Pooling) -> None:
    """As with the tokenizers of GPT-2 and Qwen2, which add none."""
    encoder = tiny_llama(pooling=pooling).eval()
    inner = encoder.tokenizer.tokenizer
    inner.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A", special_tokens=[])
    assert inner("")["input_ids"] == []
    assert encoder.tokenizer(["", "a"])[0] == [inner.bos_token_id]
    alone = encoder.encode([""])
    np.testing.assert_allclose(
        encoder.encode(["", "a longer one", ""])[[0, 2]], alone.repeat(2, 0), atol=1e-6
    )
    with torch.no_grad():
        hidden = encoder.backbone(
            input_ids=torch.tensor([[inner.bos_token_id]]), output_hidden_states=True
        ).hidden_states
    expected = (hidden[1] + hidden[-1]) / 2 if pooling == "first_last_mean" else hidden[-1]
    np.testing.assert_allclose(alone[0], expected[0, 0].numpy(), atol=1e-6)
    assert encoder.encode(["", ""]).shape == (2, 32)


def test_a_mask_template_for_a_model_without_mask() -> None:
    with pytest.raises(ValueError, match="has no mask token; choose a prompt for causal models"):
        tiny_mistral(template="{sentence} means {mask}.", pooling="mask_token")


ROLES: dict[str, Any] = {"query": "query: ", "document": "passage: {sentence}"}


def test_a_role_has_its_prefix_and_another_the_template() -> None:
    only_query = rows_of(9, "of {sentence}", query="q: ")
    for role, prefix in ((None, "of "), ("query", "q: "), ("document", "of ")):
        alone = rows_of(9, f"{prefix}{{sentence}}")
        assert only_query(["ab"], role) == alone(["ab"])
    bare = rows_of(9, "of {sentence}", document="")
    assert decode(bare, bare(["ab"], "document")[0]) == "[CLS] ab [SEP]"
    assert rows_of(9, query="", document="").roles == {}
    with pytest.raises(ValueError, match=r"^prompt must be one of query, document"):
        bare(["ab"], "passage")


@pytest.mark.parametrize("template", [None, "q: {sentence}"])
def test_rows_of_all_roles_are_cut_at_one_length(template: str | None) -> None:
    tokenizer = rows_of(9, template, **ROLES)
    prefix = len("passage:") + 2  # and the two special tokens
    assert tokenizer.lengths.added == prefix
    for role, text in ((None, "q:" if template else ""), ("query", "query:"), ("document", "passage:")):
        (row,) = tokenizer(["x" * 99], role)
        assert (
            decode(tokenizer, row).replace(" ", "") == f"[CLS]{text}{'x' * (9 + prefix - 2 - len(text))}[SEP]"
        )
        assert len(row) == tokenizer.row_tokens == 9 + prefix


def test_the_first_view_is_the_query_and_the_others_are_documents() -> None:
    tokenizer = rows_of(9, "t: {sentence}", **ROLES)
    views = [["a"], ["b"], ["c"]]

    def rows(**options: Any) -> list[str]:
        batch = tokenizer.training_rows(views, [None] * 3, 10**6, **options)
        (chunk,) = batch.chunks
        texts = [decode(tokenizer, ids) for ids in chunk["input_ids"][batch.inverse_order].tolist()]
        return [text.replace(" [PAD]", "") for text in texts]

    bare = ["[CLS] t : a [SEP]", "[CLS] t : b [SEP]", "[CLS] t : c [SEP]"]
    assert rows() == ["[CLS] query : a [SEP]", "[CLS] passage : b [SEP]", "[CLS] passage : c [SEP]"]
    assert rows(by_role=False) == bare


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"query": "{sentence} ?"}, "^query must be a prefix"),
        ({"document": "{mask} {sentence}"}, "^document must be a prefix"),
        ({"document": "d: ", "template": "a {sentence}", "denoise": "pad"}, "^document .* denoise 'pad'"),
        (
            {"query": "q: ", "template": "a {sentence}", "view_templates": ["a {sentence}"]},
            "^query .* view_tem",
        ),
        ({"query": "q: ", "template": 'a "{sentence}"'}, "^query .* text after the sentence"),
    ],
)
def test_what_a_prompt_by_role_cannot_be(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rows_of(9, **settings)
